# CPack reads this for each generator.
if(CPACK_GENERATOR STREQUAL DEB)
  # It would be put before each component's own summary.
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
endif()
