func.func @kernel(%v0: !llvm.ptr, %v1: i64, %v2: i64, %v3: i64, %v4: !llvm.ptr) {
  %v5 = llvm.getelementptr inbounds %v0[0] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %v6 = llvm.load %v5 : !llvm.ptr -> !llvm.ptr
  %v7 = llvm.getelementptr inbounds %v0[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %v8 = llvm.load %v7 : !llvm.ptr -> !llvm.ptr
  %v9 = llvm.getelementptr inbounds %v0[2] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %v10 = llvm.load %v9 : !llvm.ptr -> !llvm.ptr
  %v11 = llvm.getelementptr inbounds %v0[3] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %v12 = llvm.load %v11 : !llvm.ptr -> !llvm.ptr
  %v13 = llvm.getelementptr inbounds %v0[4] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %v14 = llvm.load %v13 : !llvm.ptr -> !llvm.ptr
  %v15 = arith.constant 1 : i64
  scf.for %v16 = %v2 to %v3 step %v15 : i64 {
    %v17 = arith.constant 1 : i64
    %v18 = arith.constant 24 : i64
    %v19 = arith.remui %v16, %v17 : i64
    %v20 = arith.divui %v16, %v17 : i64
    %v21 = arith.constant 0 : i64
    %v22 = arith.constant 0 : i64
    %v23 = arith.constant 0 : i64
    %v24 = arith.constant 0 : i64
    %v25 = arith.constant 24 : i64
    %v26 = arith.muli %v20, %v25 : i64
    %v27 = arith.addi %v24, %v26 : i64
    %v28 = arith.constant 0 : i64
    %v29 = arith.constant 24 : i64
    %v30 = arith.muli %v20, %v29 : i64
    %v31 = arith.addi %v28, %v30 : i64
    %v32 = arith.constant 16384 : i64
    %v33 = arith.muli %v19, %v32 : i64
    %v34 = arith.constant 16384 : i64
    %v35 = arith.addi %v33, %v34 : i64
    %v36 = arith.minui %v18, %v35 : i64
    %v37 = arith.constant 16 : i64
    %v38 = arith.subi %v36, %v33 : i64
    %v39 = arith.remui %v38, %v37 : i64
    %v40 = arith.subi %v36, %v39 : i64
    scf.for %v41 = %v33 to %v40 step %v37 : i64 {
      %v42 = arith.constant 0 : i64
      %v43 = arith.constant 1 : i64
      %v44 = arith.constant 48 : i64
      %v45 = arith.constant 40 : i64
      %v46 = arith.remui %v20, %v45 : i64
      %v47 = arith.constant 40 : i64
      %v48 = arith.divui %v20, %v47 : i64
      %v49 = arith.constant 1920 : i64
      %v50 = arith.muli %v48, %v49 : i64
      %v51 = arith.addi %v42, %v50 : i64
      %v52 = arith.constant 48 : i64
      %v53 = arith.muli %v46, %v52 : i64
      %v54 = arith.addi %v51, %v53 : i64
      %v55 = arith.constant 1152 : i64
      %v56 = arith.muli %v48, %v55 : i64
      %v57 = arith.addi %v42, %v56 : i64
      %v58 = arith.constant dense<0x00000000> : vector<16xf32>
      %v59 = scf.for %v60 = %v42 to %v44 step %v43 iter_args(%v61 = %v58) -> (vector<16xf32>) : i64 {
        %v62 = arith.constant 1 : i64
        %v63 = arith.muli %v60, %v62 : i64
        %v64 = arith.addi %v54, %v63 : i64
        %v65 = arith.constant 1 : i64
        %v66 = arith.muli %v60, %v65 : i64
        %v67 = arith.addi %v57, %v66 : i64
        %v68 = llvm.getelementptr inbounds %v6[%v64] : (!llvm.ptr, i64) -> !llvm.ptr, i16
        %v69 = llvm.load %v68 {alignment = 2 : i64} : !llvm.ptr -> i16
        %v70 = arith.extui %v69 : i16 to i32
        %v71 = arith.constant 16 : i32
        %v72 = arith.shli %v70, %v71 : i32
        %v73 = arith.bitcast %v72 : i32 to f32
        %v74 = vector.broadcast %v73 : f32 to vector<16xf32>
        %v75 = arith.constant 48 : i64
        %v76 = arith.muli %v41, %v75 : i64
        %v77 = arith.addi %v67, %v76 : i64
        %v78 = llvm.getelementptr inbounds %v8[%v77] : (!llvm.ptr, i64) -> !llvm.ptr, i16
        %v79 = arith.constant dense<48> : vector<16xi64>
        %v80 = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi64>
        %v81 = arith.muli %v80, %v79 : vector<16xi64>
        %v82 = llvm.getelementptr %v78[%v81] : (!llvm.ptr, vector<16xi64>) -> !llvm.vec<16 x ptr>, i16
        %v83 = arith.constant dense<true> : vector<16xi1>
        %v84 = arith.constant dense<0> : vector<16xi16>
        %v85 = llvm.intr.masked.gather %v82, %v83, %v84 {alignment = 2 : i32} : (!llvm.vec<16 x ptr>, vector<16xi1>, vector<16xi16>) -> vector<16xi16>
        %v86 = arith.extui %v85 : vector<16xi16> to vector<16xi32>
        %v87 = arith.constant dense<16> : vector<16xi32>
        %v88 = arith.shli %v86, %v87 : vector<16xi32>
        %v89 = arith.bitcast %v88 : vector<16xi32> to vector<16xf32>
        %v90 = llvm.intr.fma(%v74, %v89, %v61) : (vector<16xf32>, vector<16xf32>, vector<16xf32>) -> vector<16xf32>
        scf.yield %v90 : vector<16xf32>
      }
      %v91 = arith.addi %v23, %v41 : i64
      %v92 = llvm.getelementptr inbounds %v10[%v91] : (!llvm.ptr, i64) -> !llvm.ptr, i16
      %v93 = llvm.load %v92 {alignment = 2 : i64} : !llvm.ptr -> vector<16xi16>
      %v94 = arith.extui %v93 : vector<16xi16> to vector<16xi32>
      %v95 = arith.constant dense<16> : vector<16xi32>
      %v96 = arith.shli %v94, %v95 : vector<16xi32>
      %v97 = arith.bitcast %v96 : vector<16xi32> to vector<16xf32>
      %v98 = arith.addf %v59, %v97 : vector<16xf32>
      %v99 = arith.constant dense<0x00000000> : vector<16xf32>
      %v100 = arith.cmpf olt, %v98, %v99 : vector<16xf32>
      %v101 = arith.select %v100, %v99, %v98 : vector<16xi1>, vector<16xf32>
      %v102 = arith.addi %v27, %v41 : i64
      %v103 = llvm.getelementptr inbounds %v12[%v102] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %v104 = llvm.load %v103 {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
      %v105 = arith.addf %v101, %v104 : vector<16xf32>
      %v106 = arith.bitcast %v105 : vector<16xf32> to vector<16xi32>
      %v107 = arith.constant dense<16> : vector<16xi32>
      %v108 = arith.shrui %v106, %v107 : vector<16xi32>
      %v109 = arith.constant dense<1> : vector<16xi32>
      %v110 = arith.andi %v108, %v109 : vector<16xi32>
      %v111 = arith.constant dense<32767> : vector<16xi32>
      %v112 = arith.addi %v110, %v111 : vector<16xi32>
      %v113 = arith.addi %v106, %v112 : vector<16xi32>
      %v114 = arith.shrui %v113, %v107 : vector<16xi32>
      %v115 = arith.constant dense<64> : vector<16xi32>
      %v116 = arith.ori %v108, %v115 : vector<16xi32>
      %v117 = arith.cmpf uno, %v105, %v105 : vector<16xf32>
      %v118 = arith.select %v117, %v116, %v114 : vector<16xi1>, vector<16xi32>
      %v119 = arith.trunci %v118 : vector<16xi32> to vector<16xi16>
      %v120 = arith.addi %v31, %v41 : i64
      %v121 = llvm.getelementptr inbounds %v14[%v120] : (!llvm.ptr, i64) -> !llvm.ptr, i16
      llvm.store %v119, %v121 {alignment = 2 : i64} : vector<16xi16>, !llvm.ptr
    }
    %v122 = arith.cmpi ult, %v40, %v36 : i64
    scf.if %v122 {
      %v123 = arith.subi %v36, %v40 : i64
      %v124 = arith.trunci %v123 : i64 to i32
      %v125 = vector.broadcast %v124 : i32 to vector<16xi32>
      %v126 = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi32>
      %v127 = arith.cmpi slt, %v126, %v125 : vector<16xi32>
      %v128 = arith.constant 0 : i64
      %v129 = arith.constant 1 : i64
      %v130 = arith.constant 48 : i64
      %v131 = arith.constant 40 : i64
      %v132 = arith.remui %v20, %v131 : i64
      %v133 = arith.constant 40 : i64
      %v134 = arith.divui %v20, %v133 : i64
      %v135 = arith.constant 1920 : i64
      %v136 = arith.muli %v134, %v135 : i64
      %v137 = arith.addi %v128, %v136 : i64
      %v138 = arith.constant 48 : i64
      %v139 = arith.muli %v132, %v138 : i64
      %v140 = arith.addi %v137, %v139 : i64
      %v141 = arith.constant 1152 : i64
      %v142 = arith.muli %v134, %v141 : i64
      %v143 = arith.addi %v128, %v142 : i64
      %v144 = arith.constant dense<0x00000000> : vector<16xf32>
      %v145 = scf.for %v146 = %v128 to %v130 step %v129 iter_args(%v147 = %v144) -> (vector<16xf32>) : i64 {
        %v148 = arith.constant 1 : i64
        %v149 = arith.muli %v146, %v148 : i64
        %v150 = arith.addi %v140, %v149 : i64
        %v151 = arith.constant 1 : i64
        %v152 = arith.muli %v146, %v151 : i64
        %v153 = arith.addi %v143, %v152 : i64
        %v154 = llvm.getelementptr inbounds %v6[%v150] : (!llvm.ptr, i64) -> !llvm.ptr, i16
        %v155 = llvm.load %v154 {alignment = 2 : i64} : !llvm.ptr -> i16
        %v156 = arith.extui %v155 : i16 to i32
        %v157 = arith.constant 16 : i32
        %v158 = arith.shli %v156, %v157 : i32
        %v159 = arith.bitcast %v158 : i32 to f32
        %v160 = vector.broadcast %v159 : f32 to vector<16xf32>
        %v161 = arith.constant 48 : i64
        %v162 = arith.muli %v40, %v161 : i64
        %v163 = arith.addi %v153, %v162 : i64
        %v164 = llvm.getelementptr inbounds %v8[%v163] : (!llvm.ptr, i64) -> !llvm.ptr, i16
        %v165 = arith.constant dense<48> : vector<16xi64>
        %v166 = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi64>
        %v167 = arith.muli %v166, %v165 : vector<16xi64>
        %v168 = llvm.getelementptr %v164[%v167] : (!llvm.ptr, vector<16xi64>) -> !llvm.vec<16 x ptr>, i16
        %v169 = arith.constant dense<0> : vector<16xi16>
        %v170 = llvm.intr.masked.gather %v168, %v127, %v169 {alignment = 2 : i32} : (!llvm.vec<16 x ptr>, vector<16xi1>, vector<16xi16>) -> vector<16xi16>
        %v171 = arith.extui %v170 : vector<16xi16> to vector<16xi32>
        %v172 = arith.constant dense<16> : vector<16xi32>
        %v173 = arith.shli %v171, %v172 : vector<16xi32>
        %v174 = arith.bitcast %v173 : vector<16xi32> to vector<16xf32>
        %v175 = llvm.intr.fma(%v160, %v174, %v147) : (vector<16xf32>, vector<16xf32>, vector<16xf32>) -> vector<16xf32>
        scf.yield %v175 : vector<16xf32>
      }
      %v176 = arith.addi %v23, %v40 : i64
      %v177 = llvm.getelementptr inbounds %v10[%v176] : (!llvm.ptr, i64) -> !llvm.ptr, i16
      %v178 = arith.constant dense<0> : vector<16xi16>
      %v179 = llvm.intr.masked.load %v177, %v127, %v178 {alignment = 2 : i32} : (!llvm.ptr, vector<16xi1>, vector<16xi16>) -> vector<16xi16>
      %v180 = arith.extui %v179 : vector<16xi16> to vector<16xi32>
      %v181 = arith.constant dense<16> : vector<16xi32>
      %v182 = arith.shli %v180, %v181 : vector<16xi32>
      %v183 = arith.bitcast %v182 : vector<16xi32> to vector<16xf32>
      %v184 = arith.addf %v145, %v183 : vector<16xf32>
      %v185 = arith.constant dense<0x00000000> : vector<16xf32>
      %v186 = arith.cmpf olt, %v184, %v185 : vector<16xf32>
      %v187 = arith.select %v186, %v185, %v184 : vector<16xi1>, vector<16xf32>
      %v188 = arith.addi %v27, %v40 : i64
      %v189 = llvm.getelementptr inbounds %v12[%v188] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %v190 = arith.constant dense<0x00000000> : vector<16xf32>
      %v191 = llvm.intr.masked.load %v189, %v127, %v190 {alignment = 4 : i32} : (!llvm.ptr, vector<16xi1>, vector<16xf32>) -> vector<16xf32>
      %v192 = arith.addf %v187, %v191 : vector<16xf32>
      %v193 = arith.bitcast %v192 : vector<16xf32> to vector<16xi32>
      %v194 = arith.constant dense<16> : vector<16xi32>
      %v195 = arith.shrui %v193, %v194 : vector<16xi32>
      %v196 = arith.constant dense<1> : vector<16xi32>
      %v197 = arith.andi %v195, %v196 : vector<16xi32>
      %v198 = arith.constant dense<32767> : vector<16xi32>
      %v199 = arith.addi %v197, %v198 : vector<16xi32>
      %v200 = arith.addi %v193, %v199 : vector<16xi32>
      %v201 = arith.shrui %v200, %v194 : vector<16xi32>
      %v202 = arith.constant dense<64> : vector<16xi32>
      %v203 = arith.ori %v195, %v202 : vector<16xi32>
      %v204 = arith.cmpf uno, %v192, %v192 : vector<16xf32>
      %v205 = arith.select %v204, %v203, %v201 : vector<16xi1>, vector<16xi32>
      %v206 = arith.trunci %v205 : vector<16xi32> to vector<16xi16>
      %v207 = arith.addi %v31, %v40 : i64
      %v208 = llvm.getelementptr inbounds %v14[%v207] : (!llvm.ptr, i64) -> !llvm.ptr, i16
      llvm.intr.masked.store %v206, %v208, %v127 {alignment = 2 : i32} : vector<16xi16>, vector<16xi1> into !llvm.ptr
    }
  }
  return
}
