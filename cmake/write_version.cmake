# Script: writes OUTPUT with VERSION, COMPILER and the commit of SOURCE_DIR, found with GIT (empty: none).
set(commit "unknown")
if(GIT AND EXISTS ${SOURCE_DIR}/.git)
  # safe.directory: the checkout may belong to another user, as in a container.
  execute_process(
    COMMAND ${GIT} -c safe.directory=${SOURCE_DIR} -C ${SOURCE_DIR} describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE output RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(status EQUAL 0)
    set(commit ${output})
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
#define SPARKX_VERSION "@VERSION@"
#define SPARKX_COMMIT "@commit@"
#define SPARKX_COMPILER "@COMPILER@"
]] @ONLY)
