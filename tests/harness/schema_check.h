// tests/harness/schema_check.h - does a JSON text satisfy a JSON Schema?
//
// As much of draft 2020-12 as our schemas use: $ref into $defs, type, const and enum of texts,
// properties, required, additionalProperties, items, minItems, maxItems, minimum. A schema with any
// other keyword is refused, so that none is silently ignored.
#ifndef BT_TESTS_HARNESS_SCHEMA_CHECK_H
#define BT_TESTS_HARNESS_SCHEMA_CHECK_H

#include <cjson/cJSON.h>

// "" when it does; otherwise where and why not. Valid until the next call.
const char *schema_check(const cJSON *schema, const cJSON *value);

#endif
