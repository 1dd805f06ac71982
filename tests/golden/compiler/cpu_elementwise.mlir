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
    %v18 = arith.constant 0 : i64
    %v19 = arith.constant 16384 : i64
    %v20 = arith.muli %v12, %v19 : i64
    %v21 = arith.constant 16384 : i64
    %v22 = arith.addi %v20, %v21 : i64
    %v23 = arith.minui %v14, %v22 : i64
    %v24 = arith.constant 16 : i64
    %v25 = arith.subi %v23, %v20 : i64
    %v26 = arith.remui %v25, %v24 : i64
    %v27 = arith.subi %v23, %v26 : i64
    scf.for %v28 = %v20 to %v27 step %v24 : i64 {
      %v29 = arith.addi %v16, %v28 : i64
      %v30 = llvm.getelementptr inbounds %v6[%v29] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %v31 = llvm.load %v30 {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
      %v32 = arith.constant dense<0x00000000> : vector<16xf32>
      %v33 = arith.cmpf olt, %v31, %v32 : vector<16xf32>
      %v34 = arith.select %v33, %v32, %v31 : vector<16xi1>, vector<16xf32>
      %v35 = arith.constant dense<0x3F800000> : vector<16xf32>
      %v36 = arith.constant dense<0x00000000> : vector<16xf32>
      %v37 = arith.constant dense<0x00000000> : vector<16xf32>
      %v38 = arith.cmpf ole, %v31, %v37 : vector<16xf32>
      %v39 = arith.select %v38, %v36, %v35 : vector<16xi1>, vector<16xf32>
      %v40 = arith.addi %v17, %v28 : i64
      %v41 = llvm.getelementptr inbounds %v8[%v40] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.store %v34, %v41 {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr
      %v42 = arith.addi %v18, %v28 : i64
      %v43 = llvm.getelementptr inbounds %v10[%v42] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.store %v39, %v43 {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr
    }
    %v44 = arith.cmpi ult, %v27, %v23 : i64
    scf.if %v44 {
      %v45 = arith.subi %v23, %v27 : i64
      %v46 = arith.trunci %v45 : i64 to i32
      %v47 = vector.broadcast %v46 : i32 to vector<16xi32>
      %v48 = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi32>
      %v49 = arith.cmpi slt, %v48, %v47 : vector<16xi32>
      %v50 = arith.addi %v16, %v27 : i64
      %v51 = llvm.getelementptr inbounds %v6[%v50] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %v52 = arith.constant dense<0x00000000> : vector<16xf32>
      %v53 = llvm.intr.masked.load %v51, %v49, %v52 {alignment = 4 : i32} : (!llvm.ptr, vector<16xi1>, vector<16xf32>) -> vector<16xf32>
      %v54 = arith.constant dense<0x00000000> : vector<16xf32>
      %v55 = arith.cmpf olt, %v53, %v54 : vector<16xf32>
      %v56 = arith.select %v55, %v54, %v53 : vector<16xi1>, vector<16xf32>
      %v57 = arith.constant dense<0x3F800000> : vector<16xf32>
      %v58 = arith.constant dense<0x00000000> : vector<16xf32>
      %v59 = arith.constant dense<0x00000000> : vector<16xf32>
      %v60 = arith.cmpf ole, %v53, %v59 : vector<16xf32>
      %v61 = arith.select %v60, %v58, %v57 : vector<16xi1>, vector<16xf32>
      %v62 = arith.addi %v17, %v27 : i64
      %v63 = llvm.getelementptr inbounds %v8[%v62] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.intr.masked.store %v56, %v63, %v49 {alignment = 4 : i32} : vector<16xf32>, vector<16xi1> into !llvm.ptr
      %v64 = arith.addi %v18, %v27 : i64
      %v65 = llvm.getelementptr inbounds %v10[%v64] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.intr.masked.store %v61, %v65, %v49 {alignment = 4 : i32} : vector<16xf32>, vector<16xi1> into !llvm.ptr
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
    %v18 = arith.constant 0 : i64
    %v19 = arith.constant 16384 : i64
    %v20 = arith.muli %v12, %v19 : i64
    %v21 = arith.constant 16384 : i64
    %v22 = arith.addi %v20, %v21 : i64
    %v23 = arith.minui %v14, %v22 : i64
    %v24 = arith.constant 16 : i64
    %v25 = arith.subi %v23, %v20 : i64
    %v26 = arith.remui %v25, %v24 : i64
    %v27 = arith.subi %v23, %v26 : i64
    scf.for %v28 = %v20 to %v27 step %v24 : i64 {
      %v29 = arith.addi %v16, %v28 : i64
      %v30 = llvm.getelementptr inbounds %v6[%v29] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %v31 = llvm.load %v30 {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
      %v32 = arith.constant dense<0x00000000> : vector<16xf32>
      %v33 = arith.cmpf olt, %v31, %v32 : vector<16xf32>
      %v34 = arith.select %v33, %v32, %v31 : vector<16xi1>, vector<16xf32>
      %v35 = arith.constant dense<0x3F800000> : vector<16xf32>
      %v36 = arith.constant dense<0x00000000> : vector<16xf32>
      %v37 = arith.constant dense<0x00000000> : vector<16xf32>
      %v38 = arith.cmpf ole, %v31, %v37 : vector<16xf32>
      %v39 = arith.select %v38, %v36, %v35 : vector<16xi1>, vector<16xf32>
      %v40 = arith.addi %v17, %v28 : i64
      %v41 = llvm.getelementptr inbounds %v8[%v40] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.store %v34, %v41 {alignment = 64 : i64, nontemporal} : vector<16xf32>, !llvm.ptr
      %v42 = arith.addi %v18, %v28 : i64
      %v43 = llvm.getelementptr inbounds %v10[%v42] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.store %v39, %v43 {alignment = 64 : i64, nontemporal} : vector<16xf32>, !llvm.ptr
    }
    %v44 = arith.cmpi ult, %v27, %v23 : i64
    scf.if %v44 {
      %v45 = arith.subi %v23, %v27 : i64
      %v46 = arith.trunci %v45 : i64 to i32
      %v47 = vector.broadcast %v46 : i32 to vector<16xi32>
      %v48 = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi32>
      %v49 = arith.cmpi slt, %v48, %v47 : vector<16xi32>
      %v50 = arith.addi %v16, %v27 : i64
      %v51 = llvm.getelementptr inbounds %v6[%v50] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %v52 = arith.constant dense<0x00000000> : vector<16xf32>
      %v53 = llvm.intr.masked.load %v51, %v49, %v52 {alignment = 4 : i32} : (!llvm.ptr, vector<16xi1>, vector<16xf32>) -> vector<16xf32>
      %v54 = arith.constant dense<0x00000000> : vector<16xf32>
      %v55 = arith.cmpf olt, %v53, %v54 : vector<16xf32>
      %v56 = arith.select %v55, %v54, %v53 : vector<16xi1>, vector<16xf32>
      %v57 = arith.constant dense<0x3F800000> : vector<16xf32>
      %v58 = arith.constant dense<0x00000000> : vector<16xf32>
      %v59 = arith.constant dense<0x00000000> : vector<16xf32>
      %v60 = arith.cmpf ole, %v53, %v59 : vector<16xf32>
      %v61 = arith.select %v60, %v58, %v57 : vector<16xi1>, vector<16xf32>
      %v62 = arith.addi %v17, %v27 : i64
      %v63 = llvm.getelementptr inbounds %v8[%v62] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.intr.masked.store %v56, %v63, %v49 {alignment = 4 : i32} : vector<16xf32>, vector<16xi1> into !llvm.ptr
      %v64 = arith.addi %v18, %v27 : i64
      %v65 = llvm.getelementptr inbounds %v10[%v64] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.intr.masked.store %v61, %v65, %v49 {alignment = 4 : i32} : vector<16xf32>, vector<16xi1> into !llvm.ptr
    }
  }
  return
}
