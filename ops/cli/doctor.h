#pragma once
// `holdfast doctor`: checks of a deployment. Each check is a function in a table (doctor.cpp); it
// looks at one thing and reports what it found, what was expected and what to do.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ops/terminal/call.h"

namespace holdfast::cli {

/// The result of a check; kFail also decides the exit code.
enum class Health : std::uint8_t { kOk, kWarn, kFail };

/// One line of the report.
struct Finding {
  Health health = Health::kOk;
  std::string what;      // "open files"
  std::string found;     // one line
  std::string expected;  // not for kOk
  std::string advice;    // not for kOk
};

/// The deployment that checks look at. Reads are done once; a check changes nothing but files of
/// its own, which it removes again.
struct Patient {
  const Call& call;
  std::string state;     // absolute
  std::string programs;  // folder of our programs
  std::string root;      // prefix of /proc and /sys; empty: this machine
  bool exists = false;   // the state directory
  bool served = false;   // a daemon answers
  std::string status;    // its document (JSON), or empty
  std::string http;      // HOST:PORT that would be served

  std::vector<Finding> findings;
  void ok(std::string what, std::string found) {
    findings.push_back({Health::kOk, std::move(what), std::move(found), {}, {}});
  }
  void warn(std::string what, std::string found, std::string expected, std::string advice) {
    findings.push_back(
        {Health::kWarn, std::move(what), std::move(found), std::move(expected), std::move(advice)});
  }
  void fail(std::string what, std::string found, std::string expected, std::string advice) {
    findings.push_back(
        {Health::kFail, std::move(what), std::move(found), std::move(expected), std::move(advice)});
  }
};

/// The value in effect of a knob, from the daemon, else `fallback`.
std::int64_t knob_value(const Patient& patient, const char* name, std::int64_t fallback);
/// The whole file below `root`; empty if it cannot be read.
std::string read_below(const Patient& patient, const std::string& path);

// doctor_programs.cpp
void check_programs(Patient& patient);
void check_libraries(Patient& patient);
void check_processor(Patient& patient);
// doctor_sandbox.cpp
void check_sandbox(Patient& patient);
void check_user(Patient& patient);
// doctor_state.cpp
void check_state_dir(Patient& patient);
void check_file_system(Patient& patient);
void check_disk_space(Patient& patient);
void check_sync_time(Patient& patient);
void check_supervisor(Patient& patient);
void check_http_port(Patient& patient);
void check_config(Patient& patient);
// doctor_database.cpp
void check_database(Patient& patient);
void check_clock(Patient& patient);
void check_models(Patient& patient);
// doctor_machine.cpp
void check_open_files(Patient& patient);
void check_locked_memory(Patient& patient);
void check_memory(Patient& patient);
void check_swap(Patient& patient);
void check_huge_pages(Patient& patient);
void check_overcommit(Patient& patient);
void check_cores(Patient& patient);
// doctor_devices.cpp
void check_devices(Patient& patient);
// doctor.cpp
void check_daemon(Patient& patient);

}  // namespace holdfast::cli
