module attributes {gpu.container_module} {
gpu.module @m {
  llvm.mlir.global internal @shared4() {addr_space = 3 : i32} : !llvm.array<2 x f32>
  gpu.func @kernel(%v0: !llvm.ptr<1>, %v1: !llvm.ptr<1>, %v2: !llvm.ptr<1>, %v3: !llvm.ptr<1>, %v4: !llvm.ptr<1>, %v5: i64) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %v6 = gpu.block_id x
    %v7 = arith.index_castui %v6 : index to i64
    %v8 = gpu.thread_id x
    %v9 = arith.index_castui %v8 : index to i64
    %v10 = arith.trunci %v9 : i64 to i32
    %v11 = arith.constant 0 : i64
    %v12 = arith.constant 512 : i64
    %v13 = arith.muli %v7, %v12 : i64
    %v14 = arith.addi %v11, %v13 : i64
    %v15 = arith.constant 0 : i64
    %v16 = arith.constant 512 : i64
    %v17 = arith.muli %v7, %v16 : i64
    %v18 = arith.addi %v15, %v17 : i64
    %v19 = arith.constant 0 : i64
    %v20 = arith.constant 0 : i64
    %v21 = arith.constant 512 : i64
    %v22 = arith.muli %v7, %v21 : i64
    %v23 = arith.addi %v20, %v22 : i64
    %v24 = arith.constant 0 : i64
    %v25 = arith.constant 512 : i64
    %v26 = arith.muli %v7, %v25 : i64
    %v27 = arith.addi %v24, %v26 : i64
    %v28 = arith.constant 4 : i64
    %v29 = arith.muli %v9, %v28 : i64
    %v30 = arith.constant 0 : i64
    %v31 = arith.addi %v29, %v30 : i64
    %v32 = arith.constant 256 : i64
    %v33 = arith.addi %v29, %v32 : i64
    %v34 = arith.addi %v14, %v31 : i64
    %v35 = llvm.getelementptr inbounds %v0[%v34] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %v36 = llvm.load %v35 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    %v37 = arith.addi %v14, %v33 : i64
    %v38 = llvm.getelementptr inbounds %v0[%v37] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %v39 = llvm.load %v38 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    %v40 = arith.addi %v18, %v31 : i64
    %v41 = llvm.getelementptr inbounds %v1[%v40] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %v42 = llvm.load %v41 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    %v43 = arith.addi %v18, %v33 : i64
    %v44 = llvm.getelementptr inbounds %v1[%v43] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %v45 = llvm.load %v44 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    %v46 = arith.addi %v19, %v31 : i64
    %v47 = llvm.getelementptr inbounds %v2[%v46] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %v48 = llvm.load %v47 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    %v49 = arith.addi %v19, %v33 : i64
    %v50 = llvm.getelementptr inbounds %v2[%v49] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %v51 = llvm.load %v50 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    %v52 = arith.constant 0x00000000 : f32
    %v53 = arith.addf %v36, %v42 : vector<4xf32>
    %v54 = vector.extract %v53[0] : f32 from vector<4xf32>
    %v55 = vector.extract %v53[0] : f32 from vector<4xf32>
    %v56 = llvm.intr.fma(%v54, %v55, %v52) : (f32, f32, f32) -> f32
    %v57 = vector.extract %v53[1] : f32 from vector<4xf32>
    %v58 = vector.extract %v53[1] : f32 from vector<4xf32>
    %v59 = llvm.intr.fma(%v57, %v58, %v56) : (f32, f32, f32) -> f32
    %v60 = vector.extract %v53[2] : f32 from vector<4xf32>
    %v61 = vector.extract %v53[2] : f32 from vector<4xf32>
    %v62 = llvm.intr.fma(%v60, %v61, %v59) : (f32, f32, f32) -> f32
    %v63 = vector.extract %v53[3] : f32 from vector<4xf32>
    %v64 = vector.extract %v53[3] : f32 from vector<4xf32>
    %v65 = llvm.intr.fma(%v63, %v64, %v62) : (f32, f32, f32) -> f32
    %v66 = arith.addf %v39, %v45 : vector<4xf32>
    %v67 = vector.extract %v66[0] : f32 from vector<4xf32>
    %v68 = vector.extract %v66[0] : f32 from vector<4xf32>
    %v69 = llvm.intr.fma(%v67, %v68, %v65) : (f32, f32, f32) -> f32
    %v70 = vector.extract %v66[1] : f32 from vector<4xf32>
    %v71 = vector.extract %v66[1] : f32 from vector<4xf32>
    %v72 = llvm.intr.fma(%v70, %v71, %v69) : (f32, f32, f32) -> f32
    %v73 = vector.extract %v66[2] : f32 from vector<4xf32>
    %v74 = vector.extract %v66[2] : f32 from vector<4xf32>
    %v75 = llvm.intr.fma(%v73, %v74, %v72) : (f32, f32, f32) -> f32
    %v76 = vector.extract %v66[3] : f32 from vector<4xf32>
    %v77 = vector.extract %v66[3] : f32 from vector<4xf32>
    %v78 = llvm.intr.fma(%v76, %v77, %v75) : (f32, f32, f32) -> f32
    %v79 = arith.constant 16 : i32
    %v80 = arith.constant 32 : i32
    %v81, %v82 = gpu.shuffle xor %v78, %v79, %v80 : f32
    %v83 = arith.addf %v78, %v81 : f32
    %v84 = arith.constant 8 : i32
    %v85 = arith.constant 32 : i32
    %v86, %v87 = gpu.shuffle xor %v83, %v84, %v85 : f32
    %v88 = arith.addf %v83, %v86 : f32
    %v89 = arith.constant 4 : i32
    %v90 = arith.constant 32 : i32
    %v91, %v92 = gpu.shuffle xor %v88, %v89, %v90 : f32
    %v93 = arith.addf %v88, %v91 : f32
    %v94 = arith.constant 2 : i32
    %v95 = arith.constant 32 : i32
    %v96, %v97 = gpu.shuffle xor %v93, %v94, %v95 : f32
    %v98 = arith.addf %v93, %v96 : f32
    %v99 = arith.constant 1 : i32
    %v100 = arith.constant 32 : i32
    %v101, %v102 = gpu.shuffle xor %v98, %v99, %v100 : f32
    %v103 = arith.addf %v98, %v101 : f32
    %v104 = arith.constant 31 : i32
    %v105 = arith.constant 5 : i32
    %v106 = arith.andi %v10, %v104 : i32
    %v107 = arith.shrui %v10, %v105 : i32
    %v108 = arith.constant 0 : i32
    %v109 = arith.cmpi eq, %v106, %v108 : i32
    %v110 = llvm.mlir.addressof @shared4 : !llvm.ptr<3>
    %v111 = llvm.getelementptr %v110[%v107] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    scf.if %v109 {
      llvm.store %v103, %v111 : f32, !llvm.ptr<3>
    }
    gpu.barrier
    %v112 = arith.constant 0 : i32
    %v113 = llvm.mlir.addressof @shared4 : !llvm.ptr<3>
    %v114 = llvm.getelementptr %v113[%v112] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %v115 = llvm.load %v114 : !llvm.ptr<3> -> f32
    %v116 = arith.constant 1 : i32
    %v117 = llvm.mlir.addressof @shared4 : !llvm.ptr<3>
    %v118 = llvm.getelementptr %v117[%v116] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %v119 = llvm.load %v118 : !llvm.ptr<3> -> f32
    %v120 = arith.addf %v115, %v119 : f32
    %v121 = arith.constant 0x44000000 : f32
    %v122 = arith.divf %v120, %v121 : f32
    %v123 = arith.constant 0x3727C5AC : f32
    %v124 = arith.addf %v122, %v123 : f32
    %v125 = llvm.call_intrinsic "llvm.nvvm.sqrt.rn.f"(%v124) : (f32) -> f32
    %v126 = vector.broadcast %v125 : f32 to vector<4xf32>
    %v127 = arith.divf %v53, %v126 : vector<4xf32>
    %v128 = arith.mulf %v127, %v48 : vector<4xf32>
    %v129 = arith.addi %v23, %v31 : i64
    %v130 = llvm.getelementptr inbounds %v3[%v129] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    llvm.store %v53, %v130 {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
    %v131 = arith.addi %v27, %v31 : i64
    %v132 = llvm.getelementptr inbounds %v4[%v131] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    llvm.store %v128, %v132 {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
    %v133 = vector.broadcast %v125 : f32 to vector<4xf32>
    %v134 = arith.divf %v66, %v133 : vector<4xf32>
    %v135 = arith.mulf %v134, %v51 : vector<4xf32>
    %v136 = arith.addi %v23, %v33 : i64
    %v137 = llvm.getelementptr inbounds %v3[%v136] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    llvm.store %v66, %v137 {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
    %v138 = arith.addi %v27, %v33 : i64
    %v139 = llvm.getelementptr inbounds %v4[%v138] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    llvm.store %v135, %v139 {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
    %v140 = arith.constant 0 : i32
    %v141 = arith.cmpi eq, %v10, %v140 : i32
    gpu.return
  }
}
}
