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
    %v19 = arith.constant 0 : i64
    %v20 = arith.cmpi ule, %v15, %v11 : i64
    scf.if %v20 {
      %v21 = arith.addi %v17, %v13 : i64
      %v22 = llvm.getelementptr inbounds %v0[%v21] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
      %v23 = llvm.load %v22 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
      %v24 = arith.extf %v23 : vector<8xbf16> to vector<8xf32>
      %v25 = arith.mulf %v24, %v24 : vector<8xf32>
      %v26 = arith.constant dense<0x40000000> : vector<8xf32>
      %v27 = arith.mulf %v26, %v24 : vector<8xf32>
      %v28 = arith.truncf %v25 : vector<8xf32> to vector<8xbf16>
      %v29 = arith.addi %v18, %v13 : i64
      %v30 = llvm.getelementptr inbounds %v1[%v29] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
      llvm.store %v28, %v30 {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<1>
      %v31 = arith.truncf %v27 : vector<8xf32> to vector<8xbf16>
      %v32 = arith.addi %v19, %v13 : i64
      %v33 = llvm.getelementptr inbounds %v2[%v32] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
      llvm.store %v31, %v33 {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<1>
    } else {
      %v34 = arith.constant 1 : i64
      scf.for %v35 = %v13 to %v11 step %v34 : i64 {
        %v36 = arith.addi %v17, %v35 : i64
        %v37 = llvm.getelementptr inbounds %v0[%v36] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
        %v38 = llvm.load %v37 {alignment = 2 : i64} : !llvm.ptr<1> -> vector<1xbf16>
        %v39 = arith.extf %v38 : vector<1xbf16> to vector<1xf32>
        %v40 = arith.mulf %v39, %v39 : vector<1xf32>
        %v41 = arith.constant dense<0x40000000> : vector<1xf32>
        %v42 = arith.mulf %v41, %v39 : vector<1xf32>
        %v43 = arith.truncf %v40 : vector<1xf32> to vector<1xbf16>
        %v44 = arith.addi %v18, %v35 : i64
        %v45 = llvm.getelementptr inbounds %v1[%v44] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
        llvm.store %v43, %v45 {alignment = 2 : i64} : vector<1xbf16>, !llvm.ptr<1>
        %v46 = arith.truncf %v42 : vector<1xf32> to vector<1xbf16>
        %v47 = arith.addi %v19, %v35 : i64
        %v48 = llvm.getelementptr inbounds %v2[%v47] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
        llvm.store %v46, %v48 {alignment = 2 : i64} : vector<1xbf16>, !llvm.ptr<1>
      }
    }
    gpu.return
  }
}
}
