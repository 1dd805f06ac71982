func.func @kernel(%v0: !llvm.ptr, %v1: i64, %v2: i64, %v3: i64, %v4: !llvm.ptr) {
  %v5 = llvm.getelementptr inbounds %v0[0] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %v6 = llvm.load %v5 : !llvm.ptr -> !llvm.ptr
  %v7 = llvm.getelementptr inbounds %v0[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %v8 = llvm.load %v7 : !llvm.ptr -> !llvm.ptr
  %v9 = llvm.getelementptr inbounds %v0[2] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %v10 = llvm.load %v9 : !llvm.ptr -> !llvm.ptr
  %v11 = arith.constant 1 : i64
  scf.for %v12 = %v2 to %v3 step %v11 : i64 {
    %v13 = arith.constant 1 : i64
    %v14 = arith.constant 100 : i64
    %v15 = arith.constant 0 : i64
    %v16 = arith.constant 0 : i64
    %v17 = arith.constant 0 : i64
    %v18 = arith.constant 16384 : i64
    %v19 = arith.muli %v12, %v18 : i64
    %v20 = arith.constant 16384 : i64
    %v21 = arith.addi %v19, %v20 : i64
    %v22 = arith.minui %v14, %v21 : i64
    %v23 = arith.constant 16 : i64
    %v24 = arith.subi %v22, %v19 : i64
    %v25 = arith.remui %v24, %v23 : i64
    %v26 = arith.subi %v22, %v25 : i64
    scf.for %v27 = %v19 to %v26 step %v23 : i64 {
      %v28 = arith.addi %v15, %v27 : i64
      %v29 = llvm.getelementptr inbounds %v6[%v28] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %v30 = llvm.load %v29 {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
      %v31 = arith.constant dense<0x00000000> : vector<16xf32>
      %v32 = arith.constant dense<0x00000000> : vector<16xf32>
      %v33 = arith.cmpf olt, %v30, %v32 : vector<16xf32>
      %v34 = arith.select %v33, %v31, %v30 : vector<16xi1>, vector<16xf32>
      %v35 = arith.constant dense<0x3F800000> : vector<16xf32>
      %v36 = arith.constant dense<0x00000000> : vector<16xf32>
      %v37 = arith.constant dense<0x00000000> : vector<16xf32>
      %v38 = arith.cmpf ole, %v30, %v37 : vector<16xf32>
      %v39 = arith.select %v38, %v36, %v35 : vector<16xi1>, vector<16xf32>
      %v40 = arith.addi %v16, %v27 : i64
      %v41 = llvm.getelementptr inbounds %v8[%v40] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.store %v34, %v41 {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr
      %v42 = arith.addi %v17, %v27 : i64
      %v43 = llvm.getelementptr inbounds %v10[%v42] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.store %v39, %v43 {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr
    }
    %v44 = arith.cmpi ult, %v26, %v22 : i64
    scf.if %v44 {
      %v45 = arith.subi %v22, %v26 : i64
      %v46 = arith.trunci %v45 : i64 to i32
      %v47 = vector.broadcast %v46 : i32 to vector<16xi32>
      %v48 = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi32>
      %v49 = arith.cmpi slt, %v48, %v47 : vector<16xi32>
      %v50 = arith.addi %v15, %v26 : i64
      %v51 = llvm.getelementptr inbounds %v6[%v50] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %v52 = arith.constant dense<0x00000000> : vector<16xf32>
      %v53 = llvm.intr.masked.load %v51, %v49, %v52 {alignment = 4 : i32} : (!llvm.ptr, vector<16xi1>, vector<16xf32>) -> vector<16xf32>
      %v54 = arith.constant dense<0x00000000> : vector<16xf32>
      %v55 = arith.constant dense<0x00000000> : vector<16xf32>
      %v56 = arith.cmpf olt, %v53, %v55 : vector<16xf32>
      %v57 = arith.select %v56, %v54, %v53 : vector<16xi1>, vector<16xf32>
      %v58 = arith.constant dense<0x3F800000> : vector<16xf32>
      %v59 = arith.constant dense<0x00000000> : vector<16xf32>
      %v60 = arith.constant dense<0x00000000> : vector<16xf32>
      %v61 = arith.cmpf ole, %v53, %v60 : vector<16xf32>
      %v62 = arith.select %v61, %v59, %v58 : vector<16xi1>, vector<16xf32>
      %v63 = arith.addi %v16, %v26 : i64
      %v64 = llvm.getelementptr inbounds %v8[%v63] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.intr.masked.store %v57, %v64, %v49 {alignment = 4 : i32} : vector<16xf32>, vector<16xi1> into !llvm.ptr
      %v65 = arith.addi %v17, %v26 : i64
      %v66 = llvm.getelementptr inbounds %v10[%v65] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.intr.masked.store %v62, %v66, %v49 {alignment = 4 : i32} : vector<16xf32>, vector<16xi1> into !llvm.ptr
    }
  }
  return
}
func.func @kernel_past(%v0: !llvm.ptr, %v1: i64, %v2: i64, %v3: i64, %v4: !llvm.ptr) {
  %v5 = llvm.getelementptr inbounds %v0[0] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %v6 = llvm.load %v5 : !llvm.ptr -> !llvm.ptr
  %v7 = llvm.getelementptr inbounds %v0[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %v8 = llvm.load %v7 : !llvm.ptr -> !llvm.ptr
  %v9 = llvm.getelementptr inbounds %v0[2] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %v10 = llvm.load %v9 : !llvm.ptr -> !llvm.ptr
  %v11 = arith.constant 1 : i64
  scf.for %v12 = %v2 to %v3 step %v11 : i64 {
    %v13 = arith.constant 1 : i64
    %v14 = arith.constant 100 : i64
    %v15 = arith.constant 0 : i64
    %v16 = arith.constant 0 : i64
    %v17 = arith.constant 0 : i64
    %v18 = arith.constant 16384 : i64
    %v19 = arith.muli %v12, %v18 : i64
    %v20 = arith.constant 16384 : i64
    %v21 = arith.addi %v19, %v20 : i64
    %v22 = arith.minui %v14, %v21 : i64
    %v23 = arith.constant 16 : i64
    %v24 = arith.subi %v22, %v19 : i64
    %v25 = arith.remui %v24, %v23 : i64
    %v26 = arith.subi %v22, %v25 : i64
    scf.for %v27 = %v19 to %v26 step %v23 : i64 {
      %v28 = arith.addi %v15, %v27 : i64
      %v29 = llvm.getelementptr inbounds %v6[%v28] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %v30 = llvm.load %v29 {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
      %v31 = arith.constant dense<0x00000000> : vector<16xf32>
      %v32 = arith.constant dense<0x00000000> : vector<16xf32>
      %v33 = arith.cmpf olt, %v30, %v32 : vector<16xf32>
      %v34 = arith.select %v33, %v31, %v30 : vector<16xi1>, vector<16xf32>
      %v35 = arith.constant dense<0x3F800000> : vector<16xf32>
      %v36 = arith.constant dense<0x00000000> : vector<16xf32>
      %v37 = arith.constant dense<0x00000000> : vector<16xf32>
      %v38 = arith.cmpf ole, %v30, %v37 : vector<16xf32>
      %v39 = arith.select %v38, %v36, %v35 : vector<16xi1>, vector<16xf32>
      %v40 = arith.addi %v16, %v27 : i64
      %v41 = llvm.getelementptr inbounds %v8[%v40] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.store %v34, %v41 {alignment = 64 : i64, nontemporal} : vector<16xf32>, !llvm.ptr
      %v42 = arith.addi %v17, %v27 : i64
      %v43 = llvm.getelementptr inbounds %v10[%v42] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.store %v39, %v43 {alignment = 64 : i64, nontemporal} : vector<16xf32>, !llvm.ptr
    }
    %v44 = arith.cmpi ult, %v26, %v22 : i64
    scf.if %v44 {
      %v45 = arith.subi %v22, %v26 : i64
      %v46 = arith.trunci %v45 : i64 to i32
      %v47 = vector.broadcast %v46 : i32 to vector<16xi32>
      %v48 = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi32>
      %v49 = arith.cmpi slt, %v48, %v47 : vector<16xi32>
      %v50 = arith.addi %v15, %v26 : i64
      %v51 = llvm.getelementptr inbounds %v6[%v50] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %v52 = arith.constant dense<0x00000000> : vector<16xf32>
      %v53 = llvm.intr.masked.load %v51, %v49, %v52 {alignment = 4 : i32} : (!llvm.ptr, vector<16xi1>, vector<16xf32>) -> vector<16xf32>
      %v54 = arith.constant dense<0x00000000> : vector<16xf32>
      %v55 = arith.constant dense<0x00000000> : vector<16xf32>
      %v56 = arith.cmpf olt, %v53, %v55 : vector<16xf32>
      %v57 = arith.select %v56, %v54, %v53 : vector<16xi1>, vector<16xf32>
      %v58 = arith.constant dense<0x3F800000> : vector<16xf32>
      %v59 = arith.constant dense<0x00000000> : vector<16xf32>
      %v60 = arith.constant dense<0x00000000> : vector<16xf32>
      %v61 = arith.cmpf ole, %v53, %v60 : vector<16xf32>
      %v62 = arith.select %v61, %v59, %v58 : vector<16xi1>, vector<16xf32>
      %v63 = arith.addi %v16, %v26 : i64
      %v64 = llvm.getelementptr inbounds %v8[%v63] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.intr.masked.store %v57, %v64, %v49 {alignment = 4 : i32} : vector<16xf32>, vector<16xi1> into !llvm.ptr
      %v65 = arith.addi %v17, %v26 : i64
      %v66 = llvm.getelementptr inbounds %v10[%v65] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.intr.masked.store %v62, %v66, %v49 {alignment = 4 : i32} : vector<16xf32>, vector<16xi1> into !llvm.ptr
    }
  }
  return
}
