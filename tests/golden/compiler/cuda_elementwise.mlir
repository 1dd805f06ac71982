module attributes {gpu.container_module} {
gpu.module @m {
  gpu.func @kernel(%v0: !llvm.ptr<1>, %v1: !llvm.ptr<1>, %v2: !llvm.ptr<1>, %v3: i64) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %v5 = gpu.block_id x
    %v6 = arith.index_castui %v5 : index to i64
    %v7 = gpu.thread_id x
    %v8 = arith.index_castui %v7 : index to i64
    %v9 = arith.constant 128 : i64
    %v10 = arith.muli %v6, %v9 : i64
    %v11 = arith.addi %v10, %v8 : i64
    %v12 = arith.constant 100 : i64
    %v13 = arith.constant 8 : i64
    %v14 = arith.muli %v11, %v13 : i64
    %v15 = arith.constant 8 : i64
    %v16 = arith.addi %v14, %v15 : i64
    %v17 = arith.constant 0 : i64
    %v18 = arith.constant 0 : i64
    %v19 = arith.constant 0 : i64
    %v20 = arith.constant 0 : i64
    %v21 = arith.cmpi ule, %v16, %v12 : i64
    scf.if %v21 {
      %v22 = arith.addi %v18, %v14 : i64
      %v23 = llvm.getelementptr inbounds %v0[%v22] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
      %v24 = llvm.load %v23 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
      %v25 = arith.extf %v24 : vector<8xbf16> to vector<8xf32>
      %v26 = arith.mulf %v25, %v25 : vector<8xf32>
      %v27 = arith.constant dense<0x40000000> : vector<8xf32>
      %v28 = arith.mulf %v27, %v25 : vector<8xf32>
      %v29 = arith.truncf %v26 : vector<8xf32> to vector<8xbf16>
      %v30 = arith.addi %v19, %v14 : i64
      %v31 = llvm.getelementptr inbounds %v1[%v30] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
      llvm.store %v29, %v31 {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<1>
      %v32 = arith.truncf %v28 : vector<8xf32> to vector<8xbf16>
      %v33 = arith.addi %v20, %v14 : i64
      %v34 = llvm.getelementptr inbounds %v2[%v33] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
      llvm.store %v32, %v34 {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<1>
    } else {
      %v35 = arith.constant 1 : i64
      scf.for %v36 = %v14 to %v12 step %v35 : i64 {
        %v37 = arith.addi %v18, %v36 : i64
        %v38 = llvm.getelementptr inbounds %v0[%v37] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
        %v39 = llvm.load %v38 {alignment = 2 : i64} : !llvm.ptr<1> -> vector<1xbf16>
        %v40 = arith.extf %v39 : vector<1xbf16> to vector<1xf32>
        %v41 = arith.mulf %v40, %v40 : vector<1xf32>
        %v42 = arith.constant dense<0x40000000> : vector<1xf32>
        %v43 = arith.mulf %v42, %v40 : vector<1xf32>
        %v44 = arith.truncf %v41 : vector<1xf32> to vector<1xbf16>
        %v45 = arith.addi %v19, %v36 : i64
        %v46 = llvm.getelementptr inbounds %v1[%v45] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
        llvm.store %v44, %v46 {alignment = 2 : i64} : vector<1xbf16>, !llvm.ptr<1>
        %v47 = arith.truncf %v43 : vector<1xf32> to vector<1xbf16>
        %v48 = arith.addi %v20, %v36 : i64
        %v49 = llvm.getelementptr inbounds %v2[%v48] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
        llvm.store %v47, %v49 {alignment = 2 : i64} : vector<1xbf16>, !llvm.ptr<1>
      }
    }
    gpu.return
  }
}
}
