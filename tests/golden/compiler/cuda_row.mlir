module attributes {gpu.container_module} {
gpu.module @m {
  llvm.mlir.global internal @shared4() {addr_space = 3 : i32} : !llvm.array<2 x f32>
  gpu.func @kernel(%v0: !llvm.ptr<1>, %v1: !llvm.ptr<1>, %v2: !llvm.ptr<1>, %v3: !llvm.ptr<1>, %v4: !llvm.ptr<1>, %v5: i64) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %v7 = gpu.block_id x
    %v8 = arith.index_castui %v7 : index to i64
    %v9 = gpu.thread_id x
    %v10 = arith.index_castui %v9 : index to i64
    %v11 = arith.trunci %v10 : i64 to i32
    %v12 = arith.constant 0 : i64
    %v13 = arith.constant 512 : i64
    %v14 = arith.muli %v8, %v13 : i64
    %v15 = arith.addi %v12, %v14 : i64
    %v16 = arith.constant 0 : i64
    %v17 = arith.constant 512 : i64
    %v18 = arith.muli %v8, %v17 : i64
    %v19 = arith.addi %v16, %v18 : i64
    %v20 = arith.constant 0 : i64
    %v21 = arith.constant 0 : i64
    %v22 = arith.constant 512 : i64
    %v23 = arith.muli %v8, %v22 : i64
    %v24 = arith.addi %v21, %v23 : i64
    %v25 = arith.constant 0 : i64
    %v26 = arith.constant 512 : i64
    %v27 = arith.muli %v8, %v26 : i64
    %v28 = arith.addi %v25, %v27 : i64
    %v29 = arith.constant 4 : i64
    %v30 = arith.muli %v10, %v29 : i64
    %v31 = arith.constant 0 : i64
    %v32 = arith.addi %v30, %v31 : i64
    %v33 = arith.constant 256 : i64
    %v34 = arith.addi %v30, %v33 : i64
    %v35 = arith.addi %v15, %v32 : i64
    %v36 = llvm.getelementptr inbounds %v0[%v35] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %v37 = llvm.load %v36 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    %v38 = arith.addi %v15, %v34 : i64
    %v39 = llvm.getelementptr inbounds %v0[%v38] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %v40 = llvm.load %v39 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    %v41 = arith.addi %v19, %v32 : i64
    %v42 = llvm.getelementptr inbounds %v1[%v41] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %v43 = llvm.load %v42 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    %v44 = arith.addi %v19, %v34 : i64
    %v45 = llvm.getelementptr inbounds %v1[%v44] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %v46 = llvm.load %v45 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    %v47 = arith.addi %v20, %v32 : i64
    %v48 = llvm.getelementptr inbounds %v2[%v47] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %v49 = llvm.load %v48 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    %v50 = arith.addi %v20, %v34 : i64
    %v51 = llvm.getelementptr inbounds %v2[%v50] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %v52 = llvm.load %v51 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    %v53 = arith.constant 0x00000000 : f32
    %v54 = arith.addf %v37, %v43 : vector<4xf32>
    %v55 = vector.extract %v54[0] : f32 from vector<4xf32>
    %v56 = vector.extract %v54[0] : f32 from vector<4xf32>
    %v57 = llvm.intr.fma(%v55, %v56, %v53) : (f32, f32, f32) -> f32
    %v58 = vector.extract %v54[1] : f32 from vector<4xf32>
    %v59 = vector.extract %v54[1] : f32 from vector<4xf32>
    %v60 = llvm.intr.fma(%v58, %v59, %v57) : (f32, f32, f32) -> f32
    %v61 = vector.extract %v54[2] : f32 from vector<4xf32>
    %v62 = vector.extract %v54[2] : f32 from vector<4xf32>
    %v63 = llvm.intr.fma(%v61, %v62, %v60) : (f32, f32, f32) -> f32
    %v64 = vector.extract %v54[3] : f32 from vector<4xf32>
    %v65 = vector.extract %v54[3] : f32 from vector<4xf32>
    %v66 = llvm.intr.fma(%v64, %v65, %v63) : (f32, f32, f32) -> f32
    %v67 = arith.addf %v40, %v46 : vector<4xf32>
    %v68 = vector.extract %v67[0] : f32 from vector<4xf32>
    %v69 = vector.extract %v67[0] : f32 from vector<4xf32>
    %v70 = llvm.intr.fma(%v68, %v69, %v66) : (f32, f32, f32) -> f32
    %v71 = vector.extract %v67[1] : f32 from vector<4xf32>
    %v72 = vector.extract %v67[1] : f32 from vector<4xf32>
    %v73 = llvm.intr.fma(%v71, %v72, %v70) : (f32, f32, f32) -> f32
    %v74 = vector.extract %v67[2] : f32 from vector<4xf32>
    %v75 = vector.extract %v67[2] : f32 from vector<4xf32>
    %v76 = llvm.intr.fma(%v74, %v75, %v73) : (f32, f32, f32) -> f32
    %v77 = vector.extract %v67[3] : f32 from vector<4xf32>
    %v78 = vector.extract %v67[3] : f32 from vector<4xf32>
    %v79 = llvm.intr.fma(%v77, %v78, %v76) : (f32, f32, f32) -> f32
    %v80 = arith.constant 16 : i32
    %v81 = arith.constant 32 : i32
    %v82, %v83 = gpu.shuffle xor %v79, %v80, %v81 : f32
    %v84 = arith.addf %v79, %v82 : f32
    %v85 = arith.constant 8 : i32
    %v86 = arith.constant 32 : i32
    %v87, %v88 = gpu.shuffle xor %v84, %v85, %v86 : f32
    %v89 = arith.addf %v84, %v87 : f32
    %v90 = arith.constant 4 : i32
    %v91 = arith.constant 32 : i32
    %v92, %v93 = gpu.shuffle xor %v89, %v90, %v91 : f32
    %v94 = arith.addf %v89, %v92 : f32
    %v95 = arith.constant 2 : i32
    %v96 = arith.constant 32 : i32
    %v97, %v98 = gpu.shuffle xor %v94, %v95, %v96 : f32
    %v99 = arith.addf %v94, %v97 : f32
    %v100 = arith.constant 1 : i32
    %v101 = arith.constant 32 : i32
    %v102, %v103 = gpu.shuffle xor %v99, %v100, %v101 : f32
    %v104 = arith.addf %v99, %v102 : f32
    %v105 = arith.constant 31 : i32
    %v106 = arith.constant 5 : i32
    %v107 = arith.andi %v11, %v105 : i32
    %v108 = arith.shrui %v11, %v106 : i32
    %v109 = arith.constant 0 : i32
    %v110 = arith.cmpi eq, %v107, %v109 : i32
    %v111 = llvm.mlir.addressof @shared4 : !llvm.ptr<3>
    %v112 = llvm.getelementptr %v111[%v108] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    scf.if %v110 {
      llvm.store %v104, %v112 : f32, !llvm.ptr<3>
    }
    gpu.barrier
    %v113 = arith.constant 0 : i32
    %v114 = llvm.mlir.addressof @shared4 : !llvm.ptr<3>
    %v115 = llvm.getelementptr %v114[%v113] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %v116 = llvm.load %v115 : !llvm.ptr<3> -> f32
    %v117 = arith.constant 1 : i32
    %v118 = llvm.mlir.addressof @shared4 : !llvm.ptr<3>
    %v119 = llvm.getelementptr %v118[%v117] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %v120 = llvm.load %v119 : !llvm.ptr<3> -> f32
    %v121 = arith.addf %v116, %v120 : f32
    %v122 = arith.constant 0x44000000 : f32
    %v123 = arith.divf %v121, %v122 : f32
    %v124 = arith.constant 0x3727C5AC : f32
    %v125 = arith.addf %v123, %v124 : f32
    %v126 = llvm.call_intrinsic "llvm.nvvm.sqrt.rn.f"(%v125) : (f32) -> f32
    %v127 = vector.broadcast %v126 : f32 to vector<4xf32>
    %v128 = arith.divf %v54, %v127 : vector<4xf32>
    %v129 = arith.mulf %v128, %v49 : vector<4xf32>
    %v130 = arith.addi %v24, %v32 : i64
    %v131 = llvm.getelementptr inbounds %v3[%v130] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    llvm.store %v54, %v131 {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
    %v132 = arith.addi %v28, %v32 : i64
    %v133 = llvm.getelementptr inbounds %v4[%v132] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    llvm.store %v129, %v133 {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
    %v134 = vector.broadcast %v126 : f32 to vector<4xf32>
    %v135 = arith.divf %v67, %v134 : vector<4xf32>
    %v136 = arith.mulf %v135, %v52 : vector<4xf32>
    %v137 = arith.addi %v24, %v34 : i64
    %v138 = llvm.getelementptr inbounds %v3[%v137] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    llvm.store %v67, %v138 {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
    %v139 = arith.addi %v28, %v34 : i64
    %v140 = llvm.getelementptr inbounds %v4[%v139] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    llvm.store %v136, %v140 {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
    %v141 = arith.constant 0 : i32
    %v142 = arith.cmpi eq, %v11, %v141 : i32
    gpu.return
  }
}
}
