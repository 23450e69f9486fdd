# Writes the manual pages and completion scripts that PROGRAM prints: MANUAL is the folder of the pages,
# BASH and ZSH those of the scripts. Called when the project is installed.
file(MAKE_DIRECTORY ${MANUAL} ${BASH} ${ZSH})
execute_process(COMMAND ${PROGRAM} man OUTPUT_FILE ${MANUAL}/holdfast.1 COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PROGRAM} complete verbs OUTPUT_VARIABLE verbs COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" verbs "${verbs}")
foreach(verb ${verbs})
  string(REPLACE " " "-" page "${verb}")
  string(REPLACE " " ";" words "${verb}")
  execute_process(COMMAND ${PROGRAM} man ${words} OUTPUT_FILE ${MANUAL}/holdfast-${page}.1
    COMMAND_ERROR_IS_FATAL ANY)
endforeach()
execute_process(COMMAND ${PROGRAM} completion bash OUTPUT_FILE ${BASH}/holdfast COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PROGRAM} completion zsh OUTPUT_FILE ${ZSH}/_holdfast COMMAND_ERROR_IS_FATAL ANY)
