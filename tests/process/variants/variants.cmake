# Programs of a version to come, for tests of upgrades: today's, with one object of their own in the place
# of the one in the library. tests/newer-schema/holdfastd has a schema step more,
# tests/newer-kernels/holdfast-worker another kernels revision.
function(holdfast_variant folder program main source)
  set(name ${program}-${folder})
  add_executable(${name} ${CMAKE_SOURCE_DIR}/${main} ${CMAKE_SOURCE_DIR}/tests/process/variants/${source})
  target_link_libraries(${name} PRIVATE ${ARGN} holdfast_source_tree)
  set_target_properties(${name} PROPERTIES OUTPUT_NAME ${program}
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/${folder})
  add_dependencies(process_test ${name})
endfunction()
holdfast_variant(newer-schema holdfastd control/main.cpp newer_migrations.cpp holdfast_daemon holdfast_sandbox)
holdfast_variant(newer-kernels holdfast-worker worker/main.cpp newer_kernels.cpp holdfast_worker_link)
