# How all our C is compiled: warnings are errors, no fused multiply-add that the source did not
# write, sanitizers if requested. Enumeration constants are our integer constants, so clang's
# warning of them beside floating point is off; so is that of a loop it could not vectorise. What a user builds (preset release) sets BT_WERROR
# OFF: a warning that a compiler of tomorrow invents must stop us, not them.
option(BT_WERROR "warnings are errors" ON)
add_library(bt_compile INTERFACE)
target_compile_options(bt_compile INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wstrict-prototypes;-Wmissing-prototypes;-Wconversion;-Wsign-conversion;-Wdouble-promotion;-Wvla;-Wundef;-Wswitch-enum;-Wformat=2;-Wno-enum-float-conversion;-Wno-pass-failed;-ffp-contract=off;-fno-math-errno>)
if(BT_WERROR)
  target_compile_options(bt_compile INTERFACE $<$<COMPILE_LANGUAGE:C>:-Werror>)
endif()
target_compile_definitions(bt_compile INTERFACE _GNU_SOURCE)
target_include_directories(bt_compile INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
# A sanitizer run without the library's own asserts proves less than it says.
if((BT_SANITIZE OR BT_FUZZ) AND NOT BT_ASSERTS)
  message(FATAL_ERROR "BT_SANITIZE and BT_FUZZ need BT_ASSERTS=ON")
endif()
if(BT_ASSERTS)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  foreach(flags IN ITEMS CMAKE_C_FLAGS CMAKE_C_FLAGS_${type})
    string(REGEX REPLACE "(^| )-DNDEBUG( |$)" " " ${flags} "${${flags}}")
  endforeach()
  # base/status.h refuses NDEBUG then.
  target_compile_definitions(bt_compile INTERFACE $<$<COMPILE_LANGUAGE:C>:BT_ASSERTS>)
endif()
if(BT_SANITIZE)
  target_compile_options(bt_compile INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-fsanitize=${BT_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all>)
  target_link_options(bt_compile INTERFACE -fsanitize=${BT_SANITIZE})
endif()
if(BT_COVERAGE)
  target_compile_options(bt_compile INTERFACE $<$<COMPILE_LANGUAGE:C>:--coverage>)
  target_link_options(bt_compile INTERFACE --coverage)
endif()
