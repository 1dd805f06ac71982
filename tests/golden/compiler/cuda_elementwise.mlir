module attributes {gpu.container_module} {
gpu.module @m {
  gpu.func @kernel(%v0: !llvm.ptr<1>, %v1: !llvm.ptr<1>, %v2: !llvm.ptr<1>, %v3: i64) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %v4 = gpu.block_id x
    %v5 = arith.index_castui %v4 : index to i64
    %v6 = gpu.thread_id x
    %v7 = arith.index_castui %v6 : index to i64
    %v8 = arith.constant 128 : i64
    %v9 = arith.muli %v5, %v8 : i64
    %v10 = arith.addi %v9, %v7 : i64
    %v11 = arith.constant 100 : i64
    %v12 = arith.constant 8 : i64
    %v13 = arith.muli %v10, %v12 : i64
    %v14 = arith.constant 8 : i64
    %v15 = arith.addi %v13, %v14 : i64
    %v16 = arith.constant 0 : i64
    %v17 = arith.constant 0 : i64
    %v18 = arith.constant 0 : i64
    %v19 = arith.cmpi ule, %v15, %v11 : i64
    scf.if %v19 {
      %v20 = arith.addi %v16, %v13 : i64
      %v21 = llvm.getelementptr inbounds %v0[%v20] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
      %v22 = llvm.load %v21 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
      %v23 = arith.extf %v22 : vector<8xbf16> to vector<8xf32>
      %v24 = arith.mulf %v23, %v23 : vector<8xf32>
      %v25 = arith.constant dense<0x40000000> : vector<8xf32>
      %v26 = arith.mulf %v25, %v23 : vector<8xf32>
      %v27 = arith.truncf %v24 : vector<8xf32> to vector<8xbf16>
      %v28 = arith.addi %v17, %v13 : i64
      %v29 = llvm.getelementptr inbounds %v1[%v28] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
      llvm.store %v27, %v29 {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<1>
      %v30 = arith.truncf %v26 : vector<8xf32> to vector<8xbf16>
      %v31 = arith.addi %v18, %v13 : i64
      %v32 = llvm.getelementptr inbounds %v2[%v31] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
      llvm.store %v30, %v32 {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<1>
    } else {
      %v33 = arith.constant 1 : i64
      scf.for %v34 = %v13 to %v11 step %v33 : i64 {
        %v35 = arith.addi %v16, %v34 : i64
        %v36 = llvm.getelementptr inbounds %v0[%v35] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
        %v37 = llvm.load %v36 {alignment = 2 : i64} : !llvm.ptr<1> -> vector<1xbf16>
        %v38 = arith.extf %v37 : vector<1xbf16> to vector<1xf32>
        %v39 = arith.mulf %v38, %v38 : vector<1xf32>
        %v40 = arith.constant dense<0x40000000> : vector<1xf32>
        %v41 = arith.mulf %v40, %v38 : vector<1xf32>
        %v42 = arith.truncf %v39 : vector<1xf32> to vector<1xbf16>
        %v43 = arith.addi %v17, %v34 : i64
        %v44 = llvm.getelementptr inbounds %v1[%v43] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
        llvm.store %v42, %v44 {alignment = 2 : i64} : vector<1xbf16>, !llvm.ptr<1>
        %v45 = arith.truncf %v41 : vector<1xf32> to vector<1xbf16>
        %v46 = arith.addi %v18, %v34 : i64
        %v47 = llvm.getelementptr inbounds %v2[%v46] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
        llvm.store %v45, %v47 {alignment = 2 : i64} : vector<1xbf16>, !llvm.ptr<1>
      }
    }
    gpu.return
  }
}
}
