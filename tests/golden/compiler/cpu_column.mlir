func.func @kernel(%v0: !llvm.ptr, %v1: i64, %v2: i64, %v3: i64, %v4: !llvm.ptr) {
  %v5 = llvm.getelementptr inbounds %v0[0] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %v6 = llvm.load %v5 : !llvm.ptr -> !llvm.ptr
  %v7 = llvm.getelementptr inbounds %v0[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %v8 = llvm.load %v7 : !llvm.ptr -> !llvm.ptr
  %v9 = llvm.getelementptr inbounds %v0[2] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %v10 = llvm.load %v9 : !llvm.ptr -> !llvm.ptr
  %v11 = llvm.getelementptr inbounds %v0[3] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %v12 = llvm.load %v11 : !llvm.ptr -> !llvm.ptr
  %v13 = arith.constant 1 : i64
  scf.for %v14 = %v2 to %v3 step %v13 : i64 {
    %v15 = arith.constant 64 : i64
    %v16 = arith.muli %v14, %v15 : i64
    %v17 = arith.constant 1 : i64
    %v18 = arith.cmpi ult, %v14, %v17 : i64
    scf.if %v18 {
      %v19 = arith.constant dense<0x0000000000000000> : vector<64xf64>
      %v20 = arith.constant 8 : i64
      %v21 = arith.constant 0 : i64
      %v22 = arith.constant 1 : i64
      %v23 = scf.for %v24 = %v21 to %v20 step %v22 iter_args(%v25 = %v19) -> (vector<64xf64>) : i64 {
        %v26 = arith.constant 0 : i64
        %v27 = arith.constant 100 : i64
        %v28 = arith.muli %v24, %v27 : i64
        %v29 = arith.addi %v26, %v28 : i64
        %v30 = arith.constant 0 : i64
        %v31 = arith.constant 0 : i64
        %v32 = arith.constant 100 : i64
        %v33 = arith.muli %v24, %v32 : i64
        %v34 = arith.addi %v31, %v33 : i64
        %v35 = arith.constant 0 : i64
        %v36 = arith.addi %v29, %v16 : i64
        %v37 = llvm.getelementptr inbounds %v6[%v36] : (!llvm.ptr, i64) -> !llvm.ptr, i16
        %v38 = llvm.load %v37 {alignment = 2 : i64} : !llvm.ptr -> vector<64xi16>
        %v39 = arith.extui %v38 : vector<64xi16> to vector<64xi32>
        %v40 = arith.constant dense<16> : vector<64xi32>
        %v41 = arith.shli %v39, %v40 : vector<64xi32>
        %v42 = arith.bitcast %v41 : vector<64xi32> to vector<64xf32>
        %v43 = arith.addi %v30, %v16 : i64
        %v44 = llvm.getelementptr inbounds %v8[%v43] : (!llvm.ptr, i64) -> !llvm.ptr, i16
        %v45 = llvm.load %v44 {alignment = 2 : i64} : !llvm.ptr -> vector<64xi16>
        %v46 = arith.extui %v45 : vector<64xi16> to vector<64xi32>
        %v47 = arith.constant dense<16> : vector<64xi32>
        %v48 = arith.shli %v46, %v47 : vector<64xi32>
        %v49 = arith.bitcast %v48 : vector<64xi32> to vector<64xf32>
        %v50 = arith.mulf %v42, %v49 : vector<64xf32>
        %v51 = arith.extf %v50 : vector<64xf32> to vector<64xf64>
        %v52 = arith.addf %v25, %v51 : vector<64xf64>
        %v53 = arith.bitcast %v50 : vector<64xf32> to vector<64xi32>
        %v54 = arith.constant dense<16> : vector<64xi32>
        %v55 = arith.shrui %v53, %v54 : vector<64xi32>
        %v56 = arith.constant dense<1> : vector<64xi32>
        %v57 = arith.andi %v55, %v56 : vector<64xi32>
        %v58 = arith.constant dense<32767> : vector<64xi32>
        %v59 = arith.addi %v57, %v58 : vector<64xi32>
        %v60 = arith.addi %v53, %v59 : vector<64xi32>
        %v61 = arith.shrui %v60, %v54 : vector<64xi32>
        %v62 = arith.constant dense<64> : vector<64xi32>
        %v63 = arith.ori %v55, %v62 : vector<64xi32>
        %v64 = arith.cmpf uno, %v50, %v50 : vector<64xf32>
        %v65 = arith.select %v64, %v63, %v61 : vector<64xi1>, vector<64xi32>
        %v66 = arith.trunci %v65 : vector<64xi32> to vector<64xi16>
        %v67 = arith.addi %v34, %v16 : i64
        %v68 = llvm.getelementptr inbounds %v10[%v67] : (!llvm.ptr, i64) -> !llvm.ptr, i16
        llvm.store %v66, %v68 {alignment = 2 : i64} : vector<64xi16>, !llvm.ptr
        scf.yield %v52 : vector<64xf64>
      }
      %v69 = arith.constant 0 : i64
      %v70 = arith.constant 0 : i64
      %v71 = arith.constant 0 : i64
      %v72 = arith.constant 0 : i64
      %v73 = arith.constant 0 : i64
      %v74 = arith.truncf %v23 : vector<64xf64> to vector<64xf32>
      %v75 = arith.addi %v73, %v16 : i64
      %v76 = llvm.getelementptr inbounds %v12[%v75] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %v77 = llvm.load %v76 {alignment = 4 : i64} : !llvm.ptr -> vector<64xf32>
      %v78 = arith.addf %v77, %v74 : vector<64xf32>
      %v79 = arith.addi %v73, %v16 : i64
      %v80 = llvm.getelementptr inbounds %v12[%v79] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.store %v78, %v80 {alignment = 4 : i64} : vector<64xf32>, !llvm.ptr
    } else {
      %v81 = arith.constant 100 : i64
      %v82 = arith.subi %v81, %v16 : i64
      %v83 = arith.trunci %v82 : i64 to i32
      %v84 = vector.broadcast %v83 : i32 to vector<64xi32>
      %v85 = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63]> : vector<64xi32>
      %v86 = arith.cmpi slt, %v85, %v84 : vector<64xi32>
      %v87 = arith.constant dense<0x0000000000000000> : vector<64xf64>
      %v88 = arith.constant 8 : i64
      %v89 = arith.constant 0 : i64
      %v90 = arith.constant 1 : i64
      %v91 = scf.for %v92 = %v89 to %v88 step %v90 iter_args(%v93 = %v87) -> (vector<64xf64>) : i64 {
        %v94 = arith.constant 0 : i64
        %v95 = arith.constant 100 : i64
        %v96 = arith.muli %v92, %v95 : i64
        %v97 = arith.addi %v94, %v96 : i64
        %v98 = arith.constant 0 : i64
        %v99 = arith.constant 0 : i64
        %v100 = arith.constant 100 : i64
        %v101 = arith.muli %v92, %v100 : i64
        %v102 = arith.addi %v99, %v101 : i64
        %v103 = arith.constant 0 : i64
        %v104 = arith.addi %v97, %v16 : i64
        %v105 = llvm.getelementptr inbounds %v6[%v104] : (!llvm.ptr, i64) -> !llvm.ptr, i16
        %v106 = arith.constant dense<0> : vector<64xi16>
        %v107 = llvm.intr.masked.load %v105, %v86, %v106 {alignment = 2 : i32} : (!llvm.ptr, vector<64xi1>, vector<64xi16>) -> vector<64xi16>
        %v108 = arith.extui %v107 : vector<64xi16> to vector<64xi32>
        %v109 = arith.constant dense<16> : vector<64xi32>
        %v110 = arith.shli %v108, %v109 : vector<64xi32>
        %v111 = arith.bitcast %v110 : vector<64xi32> to vector<64xf32>
        %v112 = arith.addi %v98, %v16 : i64
        %v113 = llvm.getelementptr inbounds %v8[%v112] : (!llvm.ptr, i64) -> !llvm.ptr, i16
        %v114 = arith.constant dense<0> : vector<64xi16>
        %v115 = llvm.intr.masked.load %v113, %v86, %v114 {alignment = 2 : i32} : (!llvm.ptr, vector<64xi1>, vector<64xi16>) -> vector<64xi16>
        %v116 = arith.extui %v115 : vector<64xi16> to vector<64xi32>
        %v117 = arith.constant dense<16> : vector<64xi32>
        %v118 = arith.shli %v116, %v117 : vector<64xi32>
        %v119 = arith.bitcast %v118 : vector<64xi32> to vector<64xf32>
        %v120 = arith.mulf %v111, %v119 : vector<64xf32>
        %v121 = arith.extf %v120 : vector<64xf32> to vector<64xf64>
        %v122 = arith.constant dense<0x0000000000000000> : vector<64xf64>
        %v123 = arith.select %v86, %v121, %v122 : vector<64xi1>, vector<64xf64>
        %v124 = arith.addf %v93, %v123 : vector<64xf64>
        %v125 = arith.bitcast %v120 : vector<64xf32> to vector<64xi32>
        %v126 = arith.constant dense<16> : vector<64xi32>
        %v127 = arith.shrui %v125, %v126 : vector<64xi32>
        %v128 = arith.constant dense<1> : vector<64xi32>
        %v129 = arith.andi %v127, %v128 : vector<64xi32>
        %v130 = arith.constant dense<32767> : vector<64xi32>
        %v131 = arith.addi %v129, %v130 : vector<64xi32>
        %v132 = arith.addi %v125, %v131 : vector<64xi32>
        %v133 = arith.shrui %v132, %v126 : vector<64xi32>
        %v134 = arith.constant dense<64> : vector<64xi32>
        %v135 = arith.ori %v127, %v134 : vector<64xi32>
        %v136 = arith.cmpf uno, %v120, %v120 : vector<64xf32>
        %v137 = arith.select %v136, %v135, %v133 : vector<64xi1>, vector<64xi32>
        %v138 = arith.trunci %v137 : vector<64xi32> to vector<64xi16>
        %v139 = arith.addi %v102, %v16 : i64
        %v140 = llvm.getelementptr inbounds %v10[%v139] : (!llvm.ptr, i64) -> !llvm.ptr, i16
        llvm.intr.masked.store %v138, %v140, %v86 {alignment = 2 : i32} : vector<64xi16>, vector<64xi1> into !llvm.ptr
        scf.yield %v124 : vector<64xf64>
      }
      %v141 = arith.constant 0 : i64
      %v142 = arith.constant 0 : i64
      %v143 = arith.constant 0 : i64
      %v144 = arith.constant 0 : i64
      %v145 = arith.constant 0 : i64
      %v146 = arith.truncf %v91 : vector<64xf64> to vector<64xf32>
      %v147 = arith.addi %v145, %v16 : i64
      %v148 = llvm.getelementptr inbounds %v12[%v147] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %v149 = arith.constant dense<0x00000000> : vector<64xf32>
      %v150 = llvm.intr.masked.load %v148, %v86, %v149 {alignment = 4 : i32} : (!llvm.ptr, vector<64xi1>, vector<64xf32>) -> vector<64xf32>
      %v151 = arith.addf %v150, %v146 : vector<64xf32>
      %v152 = arith.addi %v145, %v16 : i64
      %v153 = llvm.getelementptr inbounds %v12[%v152] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.intr.masked.store %v151, %v153, %v86 {alignment = 4 : i32} : vector<64xf32>, vector<64xi1> into !llvm.ptr
    }
  }
  return
}
