module attributes {gpu.container_module} {
gpu.module @m {
  llvm.mlir.global internal @staged_a() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<1152 x i32>
  llvm.mlir.global internal @staged_b() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<1152 x i32>
  gpu.func @kernel(%v0: !llvm.ptr<1>, %v1: !llvm.ptr<1>, %v2: !llvm.ptr<1>, %v3: !llvm.ptr<1>, %v4: !llvm.ptr<1>, %v5: i64) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %v7 = gpu.block_id x
    %v8 = arith.index_castui %v7 : index to i64
    %v9 = arith.constant 1 : i64
    %v10 = arith.constant 2 : i64
    %v11 = arith.trunci %v8 : i64 to i32
    %v12 = arith.trunci %v9 : i64 to i32
    %v13 = arith.divui %v11, %v12 : i32
    %v14 = arith.extui %v13 : i32 to i64
    %v15 = arith.trunci %v8 : i64 to i32
    %v16 = arith.trunci %v9 : i64 to i32
    %v17 = arith.remui %v15, %v16 : i32
    %v18 = arith.extui %v17 : i32 to i64
    %v19 = arith.constant 32 : i64
    %v20 = arith.muli %v18, %v19 : i64
    %v21 = arith.trunci %v14 : i64 to i32
    %v22 = arith.trunci %v10 : i64 to i32
    %v23 = arith.remui %v21, %v22 : i32
    %v24 = arith.extui %v23 : i32 to i64
    %v25 = arith.constant 32 : i64
    %v26 = arith.muli %v24, %v25 : i64
    %v27 = arith.trunci %v14 : i64 to i32
    %v28 = arith.trunci %v10 : i64 to i32
    %v29 = arith.divui %v27, %v28 : i32
    %v30 = arith.extui %v29 : i32 to i64
    %v31 = gpu.thread_id x
    %v32 = arith.index_castui %v31 : index to i64
    %v33 = arith.trunci %v32 : i64 to i32
    %v34 = arith.constant 32 : i32
    %v35 = arith.remui %v33, %v34 : i32
    %v36 = arith.constant 32 : i32
    %v37 = arith.divui %v33, %v36 : i32
    %v38 = arith.constant 16 : i32
    %v39 = arith.constant 4 : i32
    %v40 = arith.divui %v35, %v39 : i32
    %v41 = arith.constant 4 : i32
    %v42 = arith.remui %v35, %v41 : i32
    %v43 = arith.constant 2 : i32
    %v44 = arith.divui %v37, %v43 : i32
    %v45 = arith.muli %v44, %v38 : i32
    %v46 = arith.constant 2 : i32
    %v47 = arith.remui %v37, %v46 : i32
    %v48 = arith.muli %v47, %v38 : i32
    %v49 = arith.constant 1920 : i64
    %v50 = arith.muli %v30, %v49 : i64
    %v51 = arith.constant 0 : i32
    %v52 = arith.addi %v33, %v51 : i32
    %v53 = arith.constant 8 : i32
    %v54 = arith.remui %v52, %v53 : i32
    %v55 = arith.constant 8 : i32
    %v56 = arith.divui %v52, %v55 : i32
    %v57 = arith.constant 8 : i32
    %v58 = arith.muli %v54, %v57 : i32
    %v59 = arith.extui %v56 : i32 to i64
    %v60 = arith.addi %v26, %v59 : i64
    %v61 = arith.extui %v58 : i32 to i64
    %v62 = arith.constant 40 : i64
    %v63 = arith.cmpi ult, %v60, %v62 : i64
    %v64 = arith.constant 48 : i64
    %v65 = arith.muli %v60, %v64 : i64
    %v66 = arith.addi %v65, %v61 : i64
    %v67 = arith.addi %v50, %v66 : i64
    %v68 = arith.constant 72 : i32
    %v69 = arith.muli %v56, %v68 : i32
    %v70 = arith.addi %v58, %v69 : i32
    %v71 = arith.constant 128 : i32
    %v72 = arith.addi %v33, %v71 : i32
    %v73 = arith.constant 8 : i32
    %v74 = arith.remui %v72, %v73 : i32
    %v75 = arith.constant 8 : i32
    %v76 = arith.divui %v72, %v75 : i32
    %v77 = arith.constant 8 : i32
    %v78 = arith.muli %v74, %v77 : i32
    %v79 = arith.extui %v76 : i32 to i64
    %v80 = arith.addi %v26, %v79 : i64
    %v81 = arith.extui %v78 : i32 to i64
    %v82 = arith.constant 40 : i64
    %v83 = arith.cmpi ult, %v80, %v82 : i64
    %v84 = arith.constant 48 : i64
    %v85 = arith.muli %v80, %v84 : i64
    %v86 = arith.addi %v85, %v81 : i64
    %v87 = arith.addi %v50, %v86 : i64
    %v88 = arith.constant 72 : i32
    %v89 = arith.muli %v76, %v88 : i32
    %v90 = arith.addi %v78, %v89 : i32
    %v91 = arith.constant 1152 : i64
    %v92 = arith.muli %v30, %v91 : i64
    %v93 = arith.constant 0 : i32
    %v94 = arith.addi %v33, %v93 : i32
    %v95 = arith.constant 8 : i32
    %v96 = arith.remui %v94, %v95 : i32
    %v97 = arith.constant 8 : i32
    %v98 = arith.divui %v94, %v97 : i32
    %v99 = arith.constant 8 : i32
    %v100 = arith.muli %v96, %v99 : i32
    %v101 = arith.extui %v98 : i32 to i64
    %v102 = arith.addi %v20, %v101 : i64
    %v103 = arith.extui %v100 : i32 to i64
    %v104 = arith.constant 24 : i64
    %v105 = arith.cmpi ult, %v102, %v104 : i64
    %v106 = arith.constant 48 : i64
    %v107 = arith.muli %v102, %v106 : i64
    %v108 = arith.addi %v107, %v103 : i64
    %v109 = arith.addi %v92, %v108 : i64
    %v110 = arith.constant 72 : i32
    %v111 = arith.muli %v98, %v110 : i32
    %v112 = arith.addi %v100, %v111 : i32
    %v113 = arith.constant 128 : i32
    %v114 = arith.addi %v33, %v113 : i32
    %v115 = arith.constant 8 : i32
    %v116 = arith.remui %v114, %v115 : i32
    %v117 = arith.constant 8 : i32
    %v118 = arith.divui %v114, %v117 : i32
    %v119 = arith.constant 8 : i32
    %v120 = arith.muli %v116, %v119 : i32
    %v121 = arith.extui %v118 : i32 to i64
    %v122 = arith.addi %v20, %v121 : i64
    %v123 = arith.extui %v120 : i32 to i64
    %v124 = arith.constant 24 : i64
    %v125 = arith.cmpi ult, %v122, %v124 : i64
    %v126 = arith.constant 48 : i64
    %v127 = arith.muli %v122, %v126 : i64
    %v128 = arith.addi %v127, %v123 : i64
    %v129 = arith.addi %v92, %v128 : i64
    %v130 = arith.constant 72 : i32
    %v131 = arith.muli %v118, %v130 : i32
    %v132 = arith.addi %v120, %v131 : i32
    %v133 = arith.constant 0x00000000 : f32
    %v134 = arith.constant 0 : i64
    %v135 = arith.constant 48 : i64
    %v136 = arith.constant 64 : i64
    %v137 = arith.addi %v61, %v134 : i64
    %v138 = arith.constant 48 : i64
    %v139 = arith.cmpi ult, %v137, %v138 : i64
    %v140 = arith.andi %v139, %v63 : i1
    %v141 = arith.addi %v67, %v134 : i64
    %v142 = arith.constant 0 : i64
    %v143 = arith.select %v140, %v141, %v142 : i64
    %v144 = llvm.getelementptr inbounds %v0[%v143] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
    %v145 = arith.constant dense<0.0> : vector<8xbf16>
    %v146 = llvm.load %v144 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
    %v147 = arith.select %v140, %v146, %v145 : vector<8xbf16>
    %v148 = arith.addi %v81, %v134 : i64
    %v149 = arith.constant 48 : i64
    %v150 = arith.cmpi ult, %v148, %v149 : i64
    %v151 = arith.andi %v150, %v83 : i1
    %v152 = arith.addi %v87, %v134 : i64
    %v153 = arith.constant 0 : i64
    %v154 = arith.select %v151, %v152, %v153 : i64
    %v155 = llvm.getelementptr inbounds %v0[%v154] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
    %v156 = arith.constant dense<0.0> : vector<8xbf16>
    %v157 = llvm.load %v155 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
    %v158 = arith.select %v151, %v157, %v156 : vector<8xbf16>
    %v159 = arith.addi %v103, %v134 : i64
    %v160 = arith.constant 48 : i64
    %v161 = arith.cmpi ult, %v159, %v160 : i64
    %v162 = arith.andi %v161, %v105 : i1
    %v163 = arith.addi %v109, %v134 : i64
    %v164 = arith.constant 0 : i64
    %v165 = arith.select %v162, %v163, %v164 : i64
    %v166 = llvm.getelementptr inbounds %v1[%v165] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
    %v167 = arith.constant dense<0.0> : vector<8xbf16>
    %v168 = llvm.load %v166 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
    %v169 = arith.select %v162, %v168, %v167 : vector<8xbf16>
    %v170 = arith.addi %v123, %v134 : i64
    %v171 = arith.constant 48 : i64
    %v172 = arith.cmpi ult, %v170, %v171 : i64
    %v173 = arith.andi %v172, %v125 : i1
    %v174 = arith.addi %v129, %v134 : i64
    %v175 = arith.constant 0 : i64
    %v176 = arith.select %v173, %v174, %v175 : i64
    %v177 = llvm.getelementptr inbounds %v1[%v176] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
    %v178 = arith.constant dense<0.0> : vector<8xbf16>
    %v179 = llvm.load %v177 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
    %v180 = arith.select %v173, %v179, %v178 : vector<8xbf16>
%v181, %v183, %v185, %v187, %v189, %v191, %v193, %v195, %v197, %v199, %v201, %v203 = scf.for %v205 = %v134 to %v135 step %v136 iter_args(%v182 = %v133, %v184 = %v133, %v186 = %v133, %v188 = %v133, %v190 = %v133, %v192 = %v133, %v194 = %v133, %v196 = %v133, %v198 = %v147, %v200 = %v158, %v202 = %v169, %v204 = %v180) -> (f32, f32, f32, f32, f32, f32, f32, f32, vector<8xbf16>, vector<8xbf16>, vector<8xbf16>, vector<8xbf16>) : i64 {
      %v206 = llvm.mlir.addressof @staged_a : !llvm.ptr<3>
      %v207 = llvm.getelementptr %v206[%v70] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, bf16
      llvm.store %v198, %v207 {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<3>
      %v208 = llvm.mlir.addressof @staged_a : !llvm.ptr<3>
      %v209 = llvm.getelementptr %v208[%v90] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, bf16
      llvm.store %v200, %v209 {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<3>
      %v210 = llvm.mlir.addressof @staged_b : !llvm.ptr<3>
      %v211 = llvm.getelementptr %v210[%v112] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, bf16
      llvm.store %v202, %v211 {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<3>
      %v212 = llvm.mlir.addressof @staged_b : !llvm.ptr<3>
      %v213 = llvm.getelementptr %v212[%v132] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, bf16
      llvm.store %v204, %v213 {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<3>
      gpu.barrier
      %v214 = arith.addi %v205, %v136 : i64
      %v215 = arith.addi %v61, %v214 : i64
      %v216 = arith.constant 48 : i64
      %v217 = arith.cmpi ult, %v215, %v216 : i64
      %v218 = arith.andi %v217, %v63 : i1
      %v219 = arith.addi %v67, %v214 : i64
      %v220 = arith.constant 0 : i64
      %v221 = arith.select %v218, %v219, %v220 : i64
      %v222 = llvm.getelementptr inbounds %v0[%v221] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
      %v223 = arith.constant dense<0.0> : vector<8xbf16>
      %v224 = llvm.load %v222 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
      %v225 = arith.select %v218, %v224, %v223 : vector<8xbf16>
      %v226 = arith.addi %v81, %v214 : i64
      %v227 = arith.constant 48 : i64
      %v228 = arith.cmpi ult, %v226, %v227 : i64
      %v229 = arith.andi %v228, %v83 : i1
      %v230 = arith.addi %v87, %v214 : i64
      %v231 = arith.constant 0 : i64
      %v232 = arith.select %v229, %v230, %v231 : i64
      %v233 = llvm.getelementptr inbounds %v0[%v232] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
      %v234 = arith.constant dense<0.0> : vector<8xbf16>
      %v235 = llvm.load %v233 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
      %v236 = arith.select %v229, %v235, %v234 : vector<8xbf16>
      %v237 = arith.addi %v103, %v214 : i64
      %v238 = arith.constant 48 : i64
      %v239 = arith.cmpi ult, %v237, %v238 : i64
      %v240 = arith.andi %v239, %v105 : i1
      %v241 = arith.addi %v109, %v214 : i64
      %v242 = arith.constant 0 : i64
      %v243 = arith.select %v240, %v241, %v242 : i64
      %v244 = llvm.getelementptr inbounds %v1[%v243] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
      %v245 = arith.constant dense<0.0> : vector<8xbf16>
      %v246 = llvm.load %v244 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
      %v247 = arith.select %v240, %v246, %v245 : vector<8xbf16>
      %v248 = arith.addi %v123, %v214 : i64
      %v249 = arith.constant 48 : i64
      %v250 = arith.cmpi ult, %v248, %v249 : i64
      %v251 = arith.andi %v250, %v125 : i1
      %v252 = arith.addi %v129, %v214 : i64
      %v253 = arith.constant 0 : i64
      %v254 = arith.select %v251, %v252, %v253 : i64
      %v255 = llvm.getelementptr inbounds %v1[%v254] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
      %v256 = arith.constant dense<0.0> : vector<8xbf16>
      %v257 = llvm.load %v255 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
      %v258 = arith.select %v251, %v257, %v256 : vector<8xbf16>
      %v259 = arith.addi %v45, %v40 : i32
      %v260 = arith.constant 36 : i32
      %v261 = arith.muli %v259, %v260 : i32
      %v262 = arith.addi %v42, %v261 : i32
      %v263 = arith.addi %v48, %v40 : i32
      %v264 = arith.constant 36 : i32
      %v265 = arith.muli %v263, %v264 : i32
      %v266 = arith.addi %v42, %v265 : i32
      %v267 = arith.constant 0 : i32
      %v268 = arith.addi %v262, %v267 : i32
      %v269 = llvm.mlir.addressof @staged_a : !llvm.ptr<3>
      %v270 = llvm.getelementptr %v269[%v268] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v271 = llvm.load %v270 : !llvm.ptr<3> -> i32
      %v272 = arith.constant 288 : i32
      %v273 = arith.addi %v262, %v272 : i32
      %v274 = llvm.mlir.addressof @staged_a : !llvm.ptr<3>
      %v275 = llvm.getelementptr %v274[%v273] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v276 = llvm.load %v275 : !llvm.ptr<3> -> i32
      %v277 = arith.constant 4 : i32
      %v278 = arith.addi %v262, %v277 : i32
      %v279 = llvm.mlir.addressof @staged_a : !llvm.ptr<3>
      %v280 = llvm.getelementptr %v279[%v278] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v281 = llvm.load %v280 : !llvm.ptr<3> -> i32
      %v282 = arith.constant 292 : i32
      %v283 = arith.addi %v262, %v282 : i32
      %v284 = llvm.mlir.addressof @staged_a : !llvm.ptr<3>
      %v285 = llvm.getelementptr %v284[%v283] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v286 = llvm.load %v285 : !llvm.ptr<3> -> i32
      %v287 = arith.constant 0 : i32
      %v288 = arith.addi %v266, %v287 : i32
      %v289 = llvm.mlir.addressof @staged_b : !llvm.ptr<3>
      %v290 = llvm.getelementptr %v289[%v288] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v291 = llvm.load %v290 : !llvm.ptr<3> -> i32
      %v292 = arith.constant 4 : i32
      %v293 = arith.addi %v266, %v292 : i32
      %v294 = llvm.mlir.addressof @staged_b : !llvm.ptr<3>
      %v295 = llvm.getelementptr %v294[%v293] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v296 = llvm.load %v295 : !llvm.ptr<3> -> i32
      %v297 = arith.constant 288 : i32
      %v298 = arith.addi %v266, %v297 : i32
      %v299 = llvm.mlir.addressof @staged_b : !llvm.ptr<3>
      %v300 = llvm.getelementptr %v299[%v298] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v301 = llvm.load %v300 : !llvm.ptr<3> -> i32
      %v302 = arith.constant 292 : i32
      %v303 = arith.addi %v266, %v302 : i32
      %v304 = llvm.mlir.addressof @staged_b : !llvm.ptr<3>
      %v305 = llvm.getelementptr %v304[%v303] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v306 = llvm.load %v305 : !llvm.ptr<3> -> i32
      %v307 = llvm.call_intrinsic "llvm.nvvm.mma.m16n8k16.row.col.bf16"(%v271, %v276, %v281, %v286, %v291, %v296, %v182, %v184, %v186, %v188) : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
      %v308 = llvm.extractvalue %v307[0] : !llvm.struct<(f32, f32, f32, f32)>
      %v309 = llvm.extractvalue %v307[1] : !llvm.struct<(f32, f32, f32, f32)>
      %v310 = llvm.extractvalue %v307[2] : !llvm.struct<(f32, f32, f32, f32)>
      %v311 = llvm.extractvalue %v307[3] : !llvm.struct<(f32, f32, f32, f32)>
      %v312 = llvm.call_intrinsic "llvm.nvvm.mma.m16n8k16.row.col.bf16"(%v271, %v276, %v281, %v286, %v301, %v306, %v190, %v192, %v194, %v196) : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
      %v313 = llvm.extractvalue %v312[0] : !llvm.struct<(f32, f32, f32, f32)>
      %v314 = llvm.extractvalue %v312[1] : !llvm.struct<(f32, f32, f32, f32)>
      %v315 = llvm.extractvalue %v312[2] : !llvm.struct<(f32, f32, f32, f32)>
      %v316 = llvm.extractvalue %v312[3] : !llvm.struct<(f32, f32, f32, f32)>
      %v317 = arith.constant 8 : i32
      %v318 = arith.addi %v262, %v317 : i32
      %v319 = llvm.mlir.addressof @staged_a : !llvm.ptr<3>
      %v320 = llvm.getelementptr %v319[%v318] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v321 = llvm.load %v320 : !llvm.ptr<3> -> i32
      %v322 = arith.constant 296 : i32
      %v323 = arith.addi %v262, %v322 : i32
      %v324 = llvm.mlir.addressof @staged_a : !llvm.ptr<3>
      %v325 = llvm.getelementptr %v324[%v323] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v326 = llvm.load %v325 : !llvm.ptr<3> -> i32
      %v327 = arith.constant 12 : i32
      %v328 = arith.addi %v262, %v327 : i32
      %v329 = llvm.mlir.addressof @staged_a : !llvm.ptr<3>
      %v330 = llvm.getelementptr %v329[%v328] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v331 = llvm.load %v330 : !llvm.ptr<3> -> i32
      %v332 = arith.constant 300 : i32
      %v333 = arith.addi %v262, %v332 : i32
      %v334 = llvm.mlir.addressof @staged_a : !llvm.ptr<3>
      %v335 = llvm.getelementptr %v334[%v333] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v336 = llvm.load %v335 : !llvm.ptr<3> -> i32
      %v337 = arith.constant 8 : i32
      %v338 = arith.addi %v266, %v337 : i32
      %v339 = llvm.mlir.addressof @staged_b : !llvm.ptr<3>
      %v340 = llvm.getelementptr %v339[%v338] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v341 = llvm.load %v340 : !llvm.ptr<3> -> i32
      %v342 = arith.constant 12 : i32
      %v343 = arith.addi %v266, %v342 : i32
      %v344 = llvm.mlir.addressof @staged_b : !llvm.ptr<3>
      %v345 = llvm.getelementptr %v344[%v343] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v346 = llvm.load %v345 : !llvm.ptr<3> -> i32
      %v347 = arith.constant 296 : i32
      %v348 = arith.addi %v266, %v347 : i32
      %v349 = llvm.mlir.addressof @staged_b : !llvm.ptr<3>
      %v350 = llvm.getelementptr %v349[%v348] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v351 = llvm.load %v350 : !llvm.ptr<3> -> i32
      %v352 = arith.constant 300 : i32
      %v353 = arith.addi %v266, %v352 : i32
      %v354 = llvm.mlir.addressof @staged_b : !llvm.ptr<3>
      %v355 = llvm.getelementptr %v354[%v353] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v356 = llvm.load %v355 : !llvm.ptr<3> -> i32
      %v357 = llvm.call_intrinsic "llvm.nvvm.mma.m16n8k16.row.col.bf16"(%v321, %v326, %v331, %v336, %v341, %v346, %v308, %v309, %v310, %v311) : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
      %v358 = llvm.extractvalue %v357[0] : !llvm.struct<(f32, f32, f32, f32)>
      %v359 = llvm.extractvalue %v357[1] : !llvm.struct<(f32, f32, f32, f32)>
      %v360 = llvm.extractvalue %v357[2] : !llvm.struct<(f32, f32, f32, f32)>
      %v361 = llvm.extractvalue %v357[3] : !llvm.struct<(f32, f32, f32, f32)>
      %v362 = llvm.call_intrinsic "llvm.nvvm.mma.m16n8k16.row.col.bf16"(%v321, %v326, %v331, %v336, %v351, %v356, %v313, %v314, %v315, %v316) : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
      %v363 = llvm.extractvalue %v362[0] : !llvm.struct<(f32, f32, f32, f32)>
      %v364 = llvm.extractvalue %v362[1] : !llvm.struct<(f32, f32, f32, f32)>
      %v365 = llvm.extractvalue %v362[2] : !llvm.struct<(f32, f32, f32, f32)>
      %v366 = llvm.extractvalue %v362[3] : !llvm.struct<(f32, f32, f32, f32)>
      %v367 = arith.constant 16 : i32
      %v368 = arith.addi %v262, %v367 : i32
      %v369 = llvm.mlir.addressof @staged_a : !llvm.ptr<3>
      %v370 = llvm.getelementptr %v369[%v368] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v371 = llvm.load %v370 : !llvm.ptr<3> -> i32
      %v372 = arith.constant 304 : i32
      %v373 = arith.addi %v262, %v372 : i32
      %v374 = llvm.mlir.addressof @staged_a : !llvm.ptr<3>
      %v375 = llvm.getelementptr %v374[%v373] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v376 = llvm.load %v375 : !llvm.ptr<3> -> i32
      %v377 = arith.constant 20 : i32
      %v378 = arith.addi %v262, %v377 : i32
      %v379 = llvm.mlir.addressof @staged_a : !llvm.ptr<3>
      %v380 = llvm.getelementptr %v379[%v378] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v381 = llvm.load %v380 : !llvm.ptr<3> -> i32
      %v382 = arith.constant 308 : i32
      %v383 = arith.addi %v262, %v382 : i32
      %v384 = llvm.mlir.addressof @staged_a : !llvm.ptr<3>
      %v385 = llvm.getelementptr %v384[%v383] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v386 = llvm.load %v385 : !llvm.ptr<3> -> i32
      %v387 = arith.constant 16 : i32
      %v388 = arith.addi %v266, %v387 : i32
      %v389 = llvm.mlir.addressof @staged_b : !llvm.ptr<3>
      %v390 = llvm.getelementptr %v389[%v388] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v391 = llvm.load %v390 : !llvm.ptr<3> -> i32
      %v392 = arith.constant 20 : i32
      %v393 = arith.addi %v266, %v392 : i32
      %v394 = llvm.mlir.addressof @staged_b : !llvm.ptr<3>
      %v395 = llvm.getelementptr %v394[%v393] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v396 = llvm.load %v395 : !llvm.ptr<3> -> i32
      %v397 = arith.constant 304 : i32
      %v398 = arith.addi %v266, %v397 : i32
      %v399 = llvm.mlir.addressof @staged_b : !llvm.ptr<3>
      %v400 = llvm.getelementptr %v399[%v398] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v401 = llvm.load %v400 : !llvm.ptr<3> -> i32
      %v402 = arith.constant 308 : i32
      %v403 = arith.addi %v266, %v402 : i32
      %v404 = llvm.mlir.addressof @staged_b : !llvm.ptr<3>
      %v405 = llvm.getelementptr %v404[%v403] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v406 = llvm.load %v405 : !llvm.ptr<3> -> i32
      %v407 = llvm.call_intrinsic "llvm.nvvm.mma.m16n8k16.row.col.bf16"(%v371, %v376, %v381, %v386, %v391, %v396, %v358, %v359, %v360, %v361) : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
      %v408 = llvm.extractvalue %v407[0] : !llvm.struct<(f32, f32, f32, f32)>
      %v409 = llvm.extractvalue %v407[1] : !llvm.struct<(f32, f32, f32, f32)>
      %v410 = llvm.extractvalue %v407[2] : !llvm.struct<(f32, f32, f32, f32)>
      %v411 = llvm.extractvalue %v407[3] : !llvm.struct<(f32, f32, f32, f32)>
      %v412 = llvm.call_intrinsic "llvm.nvvm.mma.m16n8k16.row.col.bf16"(%v371, %v376, %v381, %v386, %v401, %v406, %v363, %v364, %v365, %v366) : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
      %v413 = llvm.extractvalue %v412[0] : !llvm.struct<(f32, f32, f32, f32)>
      %v414 = llvm.extractvalue %v412[1] : !llvm.struct<(f32, f32, f32, f32)>
      %v415 = llvm.extractvalue %v412[2] : !llvm.struct<(f32, f32, f32, f32)>
      %v416 = llvm.extractvalue %v412[3] : !llvm.struct<(f32, f32, f32, f32)>
      %v417 = arith.constant 24 : i32
      %v418 = arith.addi %v262, %v417 : i32
      %v419 = llvm.mlir.addressof @staged_a : !llvm.ptr<3>
      %v420 = llvm.getelementptr %v419[%v418] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v421 = llvm.load %v420 : !llvm.ptr<3> -> i32
      %v422 = arith.constant 312 : i32
      %v423 = arith.addi %v262, %v422 : i32
      %v424 = llvm.mlir.addressof @staged_a : !llvm.ptr<3>
      %v425 = llvm.getelementptr %v424[%v423] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v426 = llvm.load %v425 : !llvm.ptr<3> -> i32
      %v427 = arith.constant 28 : i32
      %v428 = arith.addi %v262, %v427 : i32
      %v429 = llvm.mlir.addressof @staged_a : !llvm.ptr<3>
      %v430 = llvm.getelementptr %v429[%v428] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v431 = llvm.load %v430 : !llvm.ptr<3> -> i32
      %v432 = arith.constant 316 : i32
      %v433 = arith.addi %v262, %v432 : i32
      %v434 = llvm.mlir.addressof @staged_a : !llvm.ptr<3>
      %v435 = llvm.getelementptr %v434[%v433] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v436 = llvm.load %v435 : !llvm.ptr<3> -> i32
      %v437 = arith.constant 24 : i32
      %v438 = arith.addi %v266, %v437 : i32
      %v439 = llvm.mlir.addressof @staged_b : !llvm.ptr<3>
      %v440 = llvm.getelementptr %v439[%v438] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v441 = llvm.load %v440 : !llvm.ptr<3> -> i32
      %v442 = arith.constant 28 : i32
      %v443 = arith.addi %v266, %v442 : i32
      %v444 = llvm.mlir.addressof @staged_b : !llvm.ptr<3>
      %v445 = llvm.getelementptr %v444[%v443] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v446 = llvm.load %v445 : !llvm.ptr<3> -> i32
      %v447 = arith.constant 312 : i32
      %v448 = arith.addi %v266, %v447 : i32
      %v449 = llvm.mlir.addressof @staged_b : !llvm.ptr<3>
      %v450 = llvm.getelementptr %v449[%v448] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v451 = llvm.load %v450 : !llvm.ptr<3> -> i32
      %v452 = arith.constant 316 : i32
      %v453 = arith.addi %v266, %v452 : i32
      %v454 = llvm.mlir.addressof @staged_b : !llvm.ptr<3>
      %v455 = llvm.getelementptr %v454[%v453] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
      %v456 = llvm.load %v455 : !llvm.ptr<3> -> i32
      %v457 = llvm.call_intrinsic "llvm.nvvm.mma.m16n8k16.row.col.bf16"(%v421, %v426, %v431, %v436, %v441, %v446, %v408, %v409, %v410, %v411) : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
      %v458 = llvm.extractvalue %v457[0] : !llvm.struct<(f32, f32, f32, f32)>
      %v459 = llvm.extractvalue %v457[1] : !llvm.struct<(f32, f32, f32, f32)>
      %v460 = llvm.extractvalue %v457[2] : !llvm.struct<(f32, f32, f32, f32)>
      %v461 = llvm.extractvalue %v457[3] : !llvm.struct<(f32, f32, f32, f32)>
      %v462 = llvm.call_intrinsic "llvm.nvvm.mma.m16n8k16.row.col.bf16"(%v421, %v426, %v431, %v436, %v451, %v456, %v413, %v414, %v415, %v416) : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
      %v463 = llvm.extractvalue %v462[0] : !llvm.struct<(f32, f32, f32, f32)>
      %v464 = llvm.extractvalue %v462[1] : !llvm.struct<(f32, f32, f32, f32)>
      %v465 = llvm.extractvalue %v462[2] : !llvm.struct<(f32, f32, f32, f32)>
      %v466 = llvm.extractvalue %v462[3] : !llvm.struct<(f32, f32, f32, f32)>
      gpu.barrier
scf.yield %v458, %v459, %v460, %v461, %v463, %v464, %v465, %v466, %v225, %v236, %v247, %v258 : f32, f32, f32, f32, f32, f32, f32, f32, vector<8xbf16>, vector<8xbf16>, vector<8xbf16>, vector<8xbf16>
    }
    %v467 = arith.constant 0 : i32
    %v468 = arith.addi %v45, %v40 : i32
    %v469 = arith.addi %v468, %v467 : i32
    %v470 = arith.extui %v469 : i32 to i64
    %v471 = arith.addi %v26, %v470 : i64
    %v472 = arith.constant 39 : i64
    %v473 = arith.constant 40 : i64
    %v474 = arith.cmpi ult, %v471, %v473 : i64
    %v475 = arith.constant 40 : i64
    %v476 = arith.muli %v30, %v475 : i64
    %v477 = arith.minui %v471, %v472 : i64
    %v478 = arith.addi %v476, %v477 : i64
    %v479 = arith.constant 0 : i64
    %v480 = arith.constant 0 : i64
    %v481 = arith.constant 0 : i64
    %v482 = arith.constant 0 : i64
    %v483 = arith.constant 24 : i64
    %v484 = arith.muli %v478, %v483 : i64
    %v485 = arith.addi %v482, %v484 : i64
    %v486 = arith.constant 0 : i64
    %v487 = arith.constant 24 : i64
    %v488 = arith.muli %v478, %v487 : i64
    %v489 = arith.addi %v486, %v488 : i64
    %v490 = arith.addi %v42, %v42 : i32
    %v491 = arith.constant 0 : i32
    %v492 = arith.addi %v48, %v490 : i32
    %v493 = arith.addi %v492, %v491 : i32
    %v494 = arith.extui %v493 : i32 to i64
    %v495 = arith.addi %v20, %v494 : i64
    %v496 = arith.constant 24 : i64
    %v497 = arith.cmpi ult, %v495, %v496 : i64
    %v498 = arith.andi %v474, %v497 : i1
    %v499 = arith.constant dense<0x00000000> : vector<2xf32>
    %v500 = vector.insert %v181, %v499 [0] : f32 into vector<2xf32>
    %v501 = vector.insert %v183, %v500 [1] : f32 into vector<2xf32>
    %v502 = arith.addi %v481, %v495 : i64
    %v503 = llvm.getelementptr inbounds %v2[%v502] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
    %v504 = arith.constant dense<0.0> : vector<2xbf16>
    %v505 = scf.if %v498 -> (vector<2xbf16>) {
      %v506 = llvm.load %v503 {alignment = 4 : i64} : !llvm.ptr<1> -> vector<2xbf16>
      scf.yield %v506 : vector<2xbf16>
    } else {
      scf.yield %v504 : vector<2xbf16>
    }
    %v507 = arith.extf %v505 : vector<2xbf16> to vector<2xf32>
    %v508 = arith.addf %v501, %v507 : vector<2xf32>
    %v509 = arith.constant dense<0x00000000> : vector<2xf32>
    %v510 = arith.cmpf olt, %v508, %v509 : vector<2xf32>
    %v511 = arith.select %v510, %v509, %v508 : vector<2xi1>, vector<2xf32>
    %v512 = arith.addi %v485, %v495 : i64
    %v513 = llvm.getelementptr inbounds %v3[%v512] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %v514 = arith.constant dense<0x00000000> : vector<2xf32>
    %v515 = scf.if %v498 -> (vector<2xf32>) {
      %v516 = llvm.load %v513 {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xf32>
      scf.yield %v516 : vector<2xf32>
    } else {
      scf.yield %v514 : vector<2xf32>
    }
    %v517 = arith.addf %v511, %v515 : vector<2xf32>
    %v518 = arith.truncf %v517 : vector<2xf32> to vector<2xbf16>
    %v519 = arith.addi %v489, %v495 : i64
    %v520 = llvm.getelementptr inbounds %v4[%v519] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
    scf.if %v498 {
      llvm.store %v518, %v520 {alignment = 4 : i64} : vector<2xbf16>, !llvm.ptr<1>
    }
    %v521 = arith.addi %v42, %v42 : i32
    %v522 = arith.constant 8 : i32
    %v523 = arith.addi %v48, %v521 : i32
    %v524 = arith.addi %v523, %v522 : i32
    %v525 = arith.extui %v524 : i32 to i64
    %v526 = arith.addi %v20, %v525 : i64
    %v527 = arith.constant 24 : i64
    %v528 = arith.cmpi ult, %v526, %v527 : i64
    %v529 = arith.andi %v474, %v528 : i1
    %v530 = arith.constant dense<0x00000000> : vector<2xf32>
    %v531 = vector.insert %v189, %v530 [0] : f32 into vector<2xf32>
    %v532 = vector.insert %v191, %v531 [1] : f32 into vector<2xf32>
    %v533 = arith.addi %v481, %v526 : i64
    %v534 = llvm.getelementptr inbounds %v2[%v533] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
    %v535 = arith.constant dense<0.0> : vector<2xbf16>
    %v536 = scf.if %v529 -> (vector<2xbf16>) {
      %v537 = llvm.load %v534 {alignment = 4 : i64} : !llvm.ptr<1> -> vector<2xbf16>
      scf.yield %v537 : vector<2xbf16>
    } else {
      scf.yield %v535 : vector<2xbf16>
    }
    %v538 = arith.extf %v536 : vector<2xbf16> to vector<2xf32>
    %v539 = arith.addf %v532, %v538 : vector<2xf32>
    %v540 = arith.constant dense<0x00000000> : vector<2xf32>
    %v541 = arith.cmpf olt, %v539, %v540 : vector<2xf32>
    %v542 = arith.select %v541, %v540, %v539 : vector<2xi1>, vector<2xf32>
    %v543 = arith.addi %v485, %v526 : i64
    %v544 = llvm.getelementptr inbounds %v3[%v543] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %v545 = arith.constant dense<0x00000000> : vector<2xf32>
    %v546 = scf.if %v529 -> (vector<2xf32>) {
      %v547 = llvm.load %v544 {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xf32>
      scf.yield %v547 : vector<2xf32>
    } else {
      scf.yield %v545 : vector<2xf32>
    }
    %v548 = arith.addf %v542, %v546 : vector<2xf32>
    %v549 = arith.truncf %v548 : vector<2xf32> to vector<2xbf16>
    %v550 = arith.addi %v489, %v526 : i64
    %v551 = llvm.getelementptr inbounds %v4[%v550] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
    scf.if %v529 {
      llvm.store %v549, %v551 {alignment = 4 : i64} : vector<2xbf16>, !llvm.ptr<1>
    }
    %v552 = arith.constant 8 : i32
    %v553 = arith.addi %v45, %v40 : i32
    %v554 = arith.addi %v553, %v552 : i32
    %v555 = arith.extui %v554 : i32 to i64
    %v556 = arith.addi %v26, %v555 : i64
    %v557 = arith.constant 39 : i64
    %v558 = arith.constant 40 : i64
    %v559 = arith.cmpi ult, %v556, %v558 : i64
    %v560 = arith.constant 40 : i64
    %v561 = arith.muli %v30, %v560 : i64
    %v562 = arith.minui %v556, %v557 : i64
    %v563 = arith.addi %v561, %v562 : i64
    %v564 = arith.constant 0 : i64
    %v565 = arith.constant 0 : i64
    %v566 = arith.constant 0 : i64
    %v567 = arith.constant 0 : i64
    %v568 = arith.constant 24 : i64
    %v569 = arith.muli %v563, %v568 : i64
    %v570 = arith.addi %v567, %v569 : i64
    %v571 = arith.constant 0 : i64
    %v572 = arith.constant 24 : i64
    %v573 = arith.muli %v563, %v572 : i64
    %v574 = arith.addi %v571, %v573 : i64
    %v575 = arith.addi %v42, %v42 : i32
    %v576 = arith.constant 0 : i32
    %v577 = arith.addi %v48, %v575 : i32
    %v578 = arith.addi %v577, %v576 : i32
    %v579 = arith.extui %v578 : i32 to i64
    %v580 = arith.addi %v20, %v579 : i64
    %v581 = arith.constant 24 : i64
    %v582 = arith.cmpi ult, %v580, %v581 : i64
    %v583 = arith.andi %v559, %v582 : i1
    %v584 = arith.constant dense<0x00000000> : vector<2xf32>
    %v585 = vector.insert %v185, %v584 [0] : f32 into vector<2xf32>
    %v586 = vector.insert %v187, %v585 [1] : f32 into vector<2xf32>
    %v587 = arith.addi %v566, %v580 : i64
    %v588 = llvm.getelementptr inbounds %v2[%v587] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
    %v589 = arith.constant dense<0.0> : vector<2xbf16>
    %v590 = scf.if %v583 -> (vector<2xbf16>) {
      %v591 = llvm.load %v588 {alignment = 4 : i64} : !llvm.ptr<1> -> vector<2xbf16>
      scf.yield %v591 : vector<2xbf16>
    } else {
      scf.yield %v589 : vector<2xbf16>
    }
    %v592 = arith.extf %v590 : vector<2xbf16> to vector<2xf32>
    %v593 = arith.addf %v586, %v592 : vector<2xf32>
    %v594 = arith.constant dense<0x00000000> : vector<2xf32>
    %v595 = arith.cmpf olt, %v593, %v594 : vector<2xf32>
    %v596 = arith.select %v595, %v594, %v593 : vector<2xi1>, vector<2xf32>
    %v597 = arith.addi %v570, %v580 : i64
    %v598 = llvm.getelementptr inbounds %v3[%v597] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %v599 = arith.constant dense<0x00000000> : vector<2xf32>
    %v600 = scf.if %v583 -> (vector<2xf32>) {
      %v601 = llvm.load %v598 {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xf32>
      scf.yield %v601 : vector<2xf32>
    } else {
      scf.yield %v599 : vector<2xf32>
    }
    %v602 = arith.addf %v596, %v600 : vector<2xf32>
    %v603 = arith.truncf %v602 : vector<2xf32> to vector<2xbf16>
    %v604 = arith.addi %v574, %v580 : i64
    %v605 = llvm.getelementptr inbounds %v4[%v604] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
    scf.if %v583 {
      llvm.store %v603, %v605 {alignment = 4 : i64} : vector<2xbf16>, !llvm.ptr<1>
    }
    %v606 = arith.addi %v42, %v42 : i32
    %v607 = arith.constant 8 : i32
    %v608 = arith.addi %v48, %v606 : i32
    %v609 = arith.addi %v608, %v607 : i32
    %v610 = arith.extui %v609 : i32 to i64
    %v611 = arith.addi %v20, %v610 : i64
    %v612 = arith.constant 24 : i64
    %v613 = arith.cmpi ult, %v611, %v612 : i64
    %v614 = arith.andi %v559, %v613 : i1
    %v615 = arith.constant dense<0x00000000> : vector<2xf32>
    %v616 = vector.insert %v193, %v615 [0] : f32 into vector<2xf32>
    %v617 = vector.insert %v195, %v616 [1] : f32 into vector<2xf32>
    %v618 = arith.addi %v566, %v611 : i64
    %v619 = llvm.getelementptr inbounds %v2[%v618] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
    %v620 = arith.constant dense<0.0> : vector<2xbf16>
    %v621 = scf.if %v614 -> (vector<2xbf16>) {
      %v622 = llvm.load %v619 {alignment = 4 : i64} : !llvm.ptr<1> -> vector<2xbf16>
      scf.yield %v622 : vector<2xbf16>
    } else {
      scf.yield %v620 : vector<2xbf16>
    }
    %v623 = arith.extf %v621 : vector<2xbf16> to vector<2xf32>
    %v624 = arith.addf %v617, %v623 : vector<2xf32>
    %v625 = arith.constant dense<0x00000000> : vector<2xf32>
    %v626 = arith.cmpf olt, %v624, %v625 : vector<2xf32>
    %v627 = arith.select %v626, %v625, %v624 : vector<2xi1>, vector<2xf32>
    %v628 = arith.addi %v570, %v611 : i64
    %v629 = llvm.getelementptr inbounds %v3[%v628] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %v630 = arith.constant dense<0x00000000> : vector<2xf32>
    %v631 = scf.if %v614 -> (vector<2xf32>) {
      %v632 = llvm.load %v629 {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xf32>
      scf.yield %v632 : vector<2xf32>
    } else {
      scf.yield %v630 : vector<2xf32>
    }
    %v633 = arith.addf %v627, %v631 : vector<2xf32>
    %v634 = arith.truncf %v633 : vector<2xf32> to vector<2xbf16>
    %v635 = arith.addi %v574, %v611 : i64
    %v636 = llvm.getelementptr inbounds %v4[%v635] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
    scf.if %v614 {
      llvm.store %v634, %v636 {alignment = 4 : i64} : vector<2xbf16>, !llvm.ptr<1>
    }
    gpu.return
  }
}
}
