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
      %v73 = arith.truncf %v23 : vector<64xf64> to vector<64xf32>
      %v74 = arith.addi %v72, %v16 : i64
      %v75 = llvm.getelementptr inbounds %v12[%v74] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %v76 = llvm.load %v75 {alignment = 4 : i64} : !llvm.ptr -> vector<64xf32>
      %v77 = arith.addf %v76, %v73 : vector<64xf32>
      %v78 = arith.addi %v72, %v16 : i64
      %v79 = llvm.getelementptr inbounds %v12[%v78] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.store %v77, %v79 {alignment = 4 : i64} : vector<64xf32>, !llvm.ptr
    } else {
      %v80 = arith.constant 100 : i64
      %v81 = arith.subi %v80, %v16 : i64
      %v82 = arith.trunci %v81 : i64 to i32
      %v83 = vector.broadcast %v82 : i32 to vector<64xi32>
      %v84 = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63]> : vector<64xi32>
      %v85 = arith.cmpi slt, %v84, %v83 : vector<64xi32>
      %v86 = arith.constant dense<0x0000000000000000> : vector<64xf64>
      %v87 = arith.constant 8 : i64
      %v88 = arith.constant 0 : i64
      %v89 = arith.constant 1 : i64
      %v90 = scf.for %v91 = %v88 to %v87 step %v89 iter_args(%v92 = %v86) -> (vector<64xf64>) : i64 {
        %v93 = arith.constant 0 : i64
        %v94 = arith.constant 100 : i64
        %v95 = arith.muli %v91, %v94 : i64
        %v96 = arith.addi %v93, %v95 : i64
        %v97 = arith.constant 0 : i64
        %v98 = arith.constant 0 : i64
        %v99 = arith.constant 100 : i64
        %v100 = arith.muli %v91, %v99 : i64
        %v101 = arith.addi %v98, %v100 : i64
        %v102 = arith.constant 0 : i64
        %v103 = arith.addi %v96, %v16 : i64
        %v104 = llvm.getelementptr inbounds %v6[%v103] : (!llvm.ptr, i64) -> !llvm.ptr, i16
        %v105 = arith.constant dense<0> : vector<64xi16>
        %v106 = llvm.intr.masked.load %v104, %v85, %v105 {alignment = 2 : i32} : (!llvm.ptr, vector<64xi1>, vector<64xi16>) -> vector<64xi16>
        %v107 = arith.extui %v106 : vector<64xi16> to vector<64xi32>
        %v108 = arith.constant dense<16> : vector<64xi32>
        %v109 = arith.shli %v107, %v108 : vector<64xi32>
        %v110 = arith.bitcast %v109 : vector<64xi32> to vector<64xf32>
        %v111 = arith.addi %v97, %v16 : i64
        %v112 = llvm.getelementptr inbounds %v8[%v111] : (!llvm.ptr, i64) -> !llvm.ptr, i16
        %v113 = arith.constant dense<0> : vector<64xi16>
        %v114 = llvm.intr.masked.load %v112, %v85, %v113 {alignment = 2 : i32} : (!llvm.ptr, vector<64xi1>, vector<64xi16>) -> vector<64xi16>
        %v115 = arith.extui %v114 : vector<64xi16> to vector<64xi32>
        %v116 = arith.constant dense<16> : vector<64xi32>
        %v117 = arith.shli %v115, %v116 : vector<64xi32>
        %v118 = arith.bitcast %v117 : vector<64xi32> to vector<64xf32>
        %v119 = arith.mulf %v110, %v118 : vector<64xf32>
        %v120 = arith.extf %v119 : vector<64xf32> to vector<64xf64>
        %v121 = arith.constant dense<0x0000000000000000> : vector<64xf64>
        %v122 = arith.select %v85, %v120, %v121 : vector<64xi1>, vector<64xf64>
        %v123 = arith.addf %v92, %v122 : vector<64xf64>
        %v124 = arith.bitcast %v119 : vector<64xf32> to vector<64xi32>
        %v125 = arith.constant dense<16> : vector<64xi32>
        %v126 = arith.shrui %v124, %v125 : vector<64xi32>
        %v127 = arith.constant dense<1> : vector<64xi32>
        %v128 = arith.andi %v126, %v127 : vector<64xi32>
        %v129 = arith.constant dense<32767> : vector<64xi32>
        %v130 = arith.addi %v128, %v129 : vector<64xi32>
        %v131 = arith.addi %v124, %v130 : vector<64xi32>
        %v132 = arith.shrui %v131, %v125 : vector<64xi32>
        %v133 = arith.constant dense<64> : vector<64xi32>
        %v134 = arith.ori %v126, %v133 : vector<64xi32>
        %v135 = arith.cmpf uno, %v119, %v119 : vector<64xf32>
        %v136 = arith.select %v135, %v134, %v132 : vector<64xi1>, vector<64xi32>
        %v137 = arith.trunci %v136 : vector<64xi32> to vector<64xi16>
        %v138 = arith.addi %v101, %v16 : i64
        %v139 = llvm.getelementptr inbounds %v10[%v138] : (!llvm.ptr, i64) -> !llvm.ptr, i16
        llvm.intr.masked.store %v137, %v139, %v85 {alignment = 2 : i32} : vector<64xi16>, vector<64xi1> into !llvm.ptr
        scf.yield %v123 : vector<64xf64>
      }
      %v140 = arith.constant 0 : i64
      %v141 = arith.constant 0 : i64
      %v142 = arith.constant 0 : i64
      %v143 = arith.constant 0 : i64
      %v144 = arith.truncf %v90 : vector<64xf64> to vector<64xf32>
      %v145 = arith.addi %v143, %v16 : i64
      %v146 = llvm.getelementptr inbounds %v12[%v145] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %v147 = arith.constant dense<0x00000000> : vector<64xf32>
      %v148 = llvm.intr.masked.load %v146, %v85, %v147 {alignment = 4 : i32} : (!llvm.ptr, vector<64xi1>, vector<64xf32>) -> vector<64xf32>
      %v149 = arith.addf %v148, %v144 : vector<64xf32>
      %v150 = arith.addi %v143, %v16 : i64
      %v151 = llvm.getelementptr inbounds %v12[%v150] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.intr.masked.store %v149, %v151, %v85 {alignment = 4 : i32} : vector<64xf32>, vector<64xi1> into !llvm.ptr
    }
  }
  return
}
