# Writes OUTPUT, a header with what `bt-bench --version` and every record say about the build. Run
# at each build; the file is touched only when it changes.
#   cmake -DSOURCE= -DOUTPUT= -DVERSION= -DCOMPILER= -DFLAGS= -DTYPE= -DCUDA= -P bt_build_info.cmake
set(commit "")
set(diff "")
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE commit
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND ${GIT} -C ${SOURCE} diff HEAD OUTPUT_VARIABLE changes ERROR_QUIET)
  if(NOT changes STREQUAL "")
    string(SHA256 diff "${changes}")
    string(SUBSTRING ${diff} 0 16 diff)
  endif()
endif()
string(REPLACE "\"" "'" FLAGS "${FLAGS}")
set(text "// Made by ci/cmake/bt_build_info.cmake at each build.
#define BT_BUILD_VERSION \"${VERSION}\"
#define BT_BUILD_GIT_COMMIT \"${commit}\"
#define BT_BUILD_GIT_DIFF \"${diff}\"
#define BT_BUILD_COMPILER \"${COMPILER}\"
#define BT_BUILD_FLAGS \"${FLAGS}\"
#define BT_BUILD_TYPE \"${TYPE}\"
#define BT_BUILD_CUDA \"${CUDA}\"
")
set(old "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
