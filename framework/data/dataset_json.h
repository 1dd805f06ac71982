// framework/data/dataset_json.h - dataset.json; internal to this folder
#ifndef BT_DATA_DATASET_JSON_H
#define BT_DATA_DATASET_JSON_H

#include "framework/data/dataset.h"

// Fills a dataset whose folder is set.
// Errors  IO, CORRUPT_DATA (path and reason), OUT_OF_MEMORY
BT_CHECKED bt_status bt_dataset_read_json(bt_dataset *dataset, const char *path);

#endif
