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
      %v33 = arith.constant dense<0x00000000> : vector<16xf32>
      %v34 = arith.cmpf olt, %v31, %v33 : vector<16xf32>
      %v35 = arith.select %v34, %v32, %v31 : vector<16xi1>, vector<16xf32>
      %v36 = arith.constant dense<0x3F800000> : vector<16xf32>
      %v37 = arith.constant dense<0x00000000> : vector<16xf32>
      %v38 = arith.constant dense<0x00000000> : vector<16xf32>
      %v39 = arith.cmpf ole, %v31, %v38 : vector<16xf32>
      %v40 = arith.select %v39, %v37, %v36 : vector<16xi1>, vector<16xf32>
      %v41 = arith.addi %v17, %v28 : i64
      %v42 = llvm.getelementptr inbounds %v8[%v41] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.store %v35, %v42 {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr
      %v43 = arith.addi %v18, %v28 : i64
      %v44 = llvm.getelementptr inbounds %v10[%v43] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.store %v40, %v44 {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr
    }
    %v45 = arith.cmpi ult, %v27, %v23 : i64
    scf.if %v45 {
      %v46 = arith.subi %v23, %v27 : i64
      %v47 = arith.trunci %v46 : i64 to i32
      %v48 = vector.broadcast %v47 : i32 to vector<16xi32>
      %v49 = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi32>
      %v50 = arith.cmpi slt, %v49, %v48 : vector<16xi32>
      %v51 = arith.addi %v16, %v27 : i64
      %v52 = llvm.getelementptr inbounds %v6[%v51] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %v53 = arith.constant dense<0x00000000> : vector<16xf32>
      %v54 = llvm.intr.masked.load %v52, %v50, %v53 {alignment = 4 : i32} : (!llvm.ptr, vector<16xi1>, vector<16xf32>) -> vector<16xf32>
      %v55 = arith.constant dense<0x00000000> : vector<16xf32>
      %v56 = arith.constant dense<0x00000000> : vector<16xf32>
      %v57 = arith.cmpf olt, %v54, %v56 : vector<16xf32>
      %v58 = arith.select %v57, %v55, %v54 : vector<16xi1>, vector<16xf32>
      %v59 = arith.constant dense<0x3F800000> : vector<16xf32>
      %v60 = arith.constant dense<0x00000000> : vector<16xf32>
      %v61 = arith.constant dense<0x00000000> : vector<16xf32>
      %v62 = arith.cmpf ole, %v54, %v61 : vector<16xf32>
      %v63 = arith.select %v62, %v60, %v59 : vector<16xi1>, vector<16xf32>
      %v64 = arith.addi %v17, %v27 : i64
      %v65 = llvm.getelementptr inbounds %v8[%v64] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.intr.masked.store %v58, %v65, %v50 {alignment = 4 : i32} : vector<16xf32>, vector<16xi1> into !llvm.ptr
      %v66 = arith.addi %v18, %v27 : i64
      %v67 = llvm.getelementptr inbounds %v10[%v66] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.intr.masked.store %v63, %v67, %v50 {alignment = 4 : i32} : vector<16xf32>, vector<16xi1> into !llvm.ptr
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
      %v33 = arith.constant dense<0x00000000> : vector<16xf32>
      %v34 = arith.cmpf olt, %v31, %v33 : vector<16xf32>
      %v35 = arith.select %v34, %v32, %v31 : vector<16xi1>, vector<16xf32>
      %v36 = arith.constant dense<0x3F800000> : vector<16xf32>
      %v37 = arith.constant dense<0x00000000> : vector<16xf32>
      %v38 = arith.constant dense<0x00000000> : vector<16xf32>
      %v39 = arith.cmpf ole, %v31, %v38 : vector<16xf32>
      %v40 = arith.select %v39, %v37, %v36 : vector<16xi1>, vector<16xf32>
      %v41 = arith.addi %v17, %v28 : i64
      %v42 = llvm.getelementptr inbounds %v8[%v41] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.store %v35, %v42 {alignment = 64 : i64, nontemporal} : vector<16xf32>, !llvm.ptr
      %v43 = arith.addi %v18, %v28 : i64
      %v44 = llvm.getelementptr inbounds %v10[%v43] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.store %v40, %v44 {alignment = 64 : i64, nontemporal} : vector<16xf32>, !llvm.ptr
    }
    %v45 = arith.cmpi ult, %v27, %v23 : i64
    scf.if %v45 {
      %v46 = arith.subi %v23, %v27 : i64
      %v47 = arith.trunci %v46 : i64 to i32
      %v48 = vector.broadcast %v47 : i32 to vector<16xi32>
      %v49 = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi32>
      %v50 = arith.cmpi slt, %v49, %v48 : vector<16xi32>
      %v51 = arith.addi %v16, %v27 : i64
      %v52 = llvm.getelementptr inbounds %v6[%v51] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %v53 = arith.constant dense<0x00000000> : vector<16xf32>
      %v54 = llvm.intr.masked.load %v52, %v50, %v53 {alignment = 4 : i32} : (!llvm.ptr, vector<16xi1>, vector<16xf32>) -> vector<16xf32>
      %v55 = arith.constant dense<0x00000000> : vector<16xf32>
      %v56 = arith.constant dense<0x00000000> : vector<16xf32>
      %v57 = arith.cmpf olt, %v54, %v56 : vector<16xf32>
      %v58 = arith.select %v57, %v55, %v54 : vector<16xi1>, vector<16xf32>
      %v59 = arith.constant dense<0x3F800000> : vector<16xf32>
      %v60 = arith.constant dense<0x00000000> : vector<16xf32>
      %v61 = arith.constant dense<0x00000000> : vector<16xf32>
      %v62 = arith.cmpf ole, %v54, %v61 : vector<16xf32>
      %v63 = arith.select %v62, %v60, %v59 : vector<16xi1>, vector<16xf32>
      %v64 = arith.addi %v17, %v27 : i64
      %v65 = llvm.getelementptr inbounds %v8[%v64] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.intr.masked.store %v58, %v65, %v50 {alignment = 4 : i32} : vector<16xf32>, vector<16xi1> into !llvm.ptr
      %v66 = arith.addi %v18, %v27 : i64
      %v67 = llvm.getelementptr inbounds %v10[%v66] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      llvm.intr.masked.store %v63, %v67, %v50 {alignment = 4 : i32} : vector<16xf32>, vector<16xi1> into !llvm.ptr
    }
  }
  return
}
