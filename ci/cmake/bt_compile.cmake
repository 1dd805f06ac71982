# How all our C is compiled: warnings are errors, no fused multiply-add that the source did not
# write, sanitizers when asked for.
add_library(bt_compile INTERFACE)
target_compile_options(bt_compile INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wstrict-prototypes;-Wmissing-prototypes;-Wconversion;-Wsign-conversion;-Wdouble-promotion;-Wvla;-Wundef;-Wswitch-enum;-Wformat=2;-Werror;-ffp-contract=off;-fno-math-errno>)
target_compile_definitions(bt_compile INTERFACE _GNU_SOURCE)
target_include_directories(bt_compile INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
if(BT_SANITIZE)
  target_compile_options(bt_compile INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-fsanitize=${BT_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all>)
  target_link_options(bt_compile INTERFACE -fsanitize=${BT_SANITIZE})
endif()
if(BT_COVERAGE)
  target_compile_options(bt_compile INTERFACE $<$<COMPILE_LANGUAGE:C>:--coverage>)
  target_link_options(bt_compile INTERFACE --coverage)
endif()
