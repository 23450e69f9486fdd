# What `cmake --install` puts where, by component: `runtime` (programs, manual pages, completion, unit
# file, demo model), `library` (the C library), `development` (its header, and headers and static libraries
# of the C++ client) and `documentation`.
# PREFIX/bin has `holdfast`; the programs that it starts are in PREFIX/libexec/holdfast, where it
# looks for them if they are not beside it.
include(GNUInstallDirs)
set(holdfast_libexec ${CMAKE_INSTALL_LIBEXECDIR}/holdfast)
set(holdfast_data ${CMAKE_INSTALL_DATADIR}/holdfast)
# Installed programs are for machines of every kind, and name no folder of the machine that built them.
set_target_properties(holdfast holdfastd holdfast-ingress holdfast-worker holdfast-gateway holdfast-fetcher
  PROPERTIES SKIP_BUILD_RPATH ON)

# The worker that is replaced stays for requests that began on it (ops/packaging/kept-workers).
install(CODE "
  set(libexec \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${holdfast_libexec})
  execute_process(COMMAND ${CMAKE_SOURCE_DIR}/ops/packaging/kept-workers keep \${libexec})
" COMPONENT runtime)
install(PROGRAMS ops/packaging/kept-workers DESTINATION ${holdfast_libexec} COMPONENT runtime)

install(TARGETS holdfast RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
install(TARGETS holdfastd holdfast-ingress holdfast-worker holdfast-gateway holdfast-fetcher
  RUNTIME DESTINATION ${holdfast_libexec} COMPONENT runtime)
install(FILES ops/demo/holdfast-demo-Q8_0.gguf DESTINATION ${holdfast_data}/demo COMPONENT runtime)
install(DIRECTORY ops/grafana ops/prometheus DESTINATION ${holdfast_data} COMPONENT runtime)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)

# The unit files name the program where it is installed; the prefix may be given when it is.
install(CODE "
  set(prefix \${CMAKE_INSTALL_PREFIX})
  foreach(name holdfast holdfast-node)
    file(READ ${CMAKE_SOURCE_DIR}/ops/systemd/\${name}.service unit)
    string(REGEX REPLACE \"ExecStart=[^ ]+/holdfast \" \"ExecStart=\${prefix}/${CMAKE_INSTALL_BINDIR}/holdfast \" unit \"\${unit}\")
    string(REGEX REPLACE \"^# .*# docs/run/service.md\" \"# docs/run/service.md\" unit \"\${unit}\")
    file(CONFIGURE OUTPUT \$ENV{DESTDIR}\${prefix}/lib/systemd/system/\${name}.service CONTENT \"\${unit}\" @ONLY)
  endforeach()
" COMPONENT runtime)

# Manual pages and completion are written by the program itself, when it is installed.
install(CODE "
  set(root \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX})
  execute_process(COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:holdfast>
    -DMANUAL=\${root}/${CMAKE_INSTALL_MANDIR}/man1
    -DBASH=\${root}/${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    -DZSH=\${root}/${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions
    -P ${CMAKE_SOURCE_DIR}/ops/install_pages.cmake COMMAND_ERROR_IS_FATAL ANY)
" COMPONENT runtime)

# The C library, and how pkg-config and CMake find it.
install(TARGETS holdfast_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
  NAMELINK_COMPONENT development)
install(FILES shared/sdk/holdfast.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
# The prefix is that of the installation, which may be given when it is made.
install(CODE "
  set(holdfast_version ${holdfast_version})
  set(CMAKE_INSTALL_LIBDIR ${CMAKE_INSTALL_LIBDIR})
  set(CMAKE_INSTALL_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR})
  configure_file(${CMAKE_SOURCE_DIR}/shared/sdk/holdfast.pc.in
    \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig/holdfast.pc @ONLY)
" COMPONENT development)
install(FILES shared/sdk/HoldfastConfig.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Holdfast
  COMPONENT development)

install(TARGETS holdfast_client holdfast_wire holdfast_text holdfast_gguf holdfast_base
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/holdfast COMPONENT development)
foreach(room base client gguf text wire)
  install(DIRECTORY shared/${room} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/holdfast/shared
    COMPONENT development FILES_MATCHING PATTERN "*.h")
endforeach()
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documentation
  FILES_MATCHING PATTERN "*.md" PATTERN "*.cpp" PATTERN "lab" EXCLUDE PATTERN "console" EXCLUDE)
install(FILES CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documentation)
