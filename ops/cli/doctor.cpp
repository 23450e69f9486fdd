#include "ops/cli/doctor.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "ops/cli/verb_functions.h"
#include "ops/serve/daemon.h"
#include "ops/serve/state_dir.h"
#include "ops/terminal/output.h"
#include "ops/terminal/width.h"
#include "shared/base/json_text.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;
using Check = void (*)(Patient&);

constexpr Check kChecks[] = {
    &check_programs,   &check_libraries,     &check_state_dir,  &check_file_system,
    &check_disk_space, &check_sync_time,     &check_database,   &check_clock,
    &check_models,     &check_config,        &check_supervisor, &check_http_port,
    &check_open_files, &check_locked_memory, &check_memory,     &check_swap,
    &check_huge_pages, &check_overcommit,    &check_processor,  &check_devices,
    &check_cores,      &check_sandbox,       &check_user,       &check_daemon,
};

constexpr const char* kNames[] = {"ok", "warn", "fail"};

const char* name_of(Health health) {
  return kNames[static_cast<std::size_t>(health)];
}

void ask_daemon(Patient& patient) {
  if (!daemon_listens(patient.call.state_dir)) return;
  auto client = connect_operator(patient.call, std::chrono::seconds(5));
  if (!client) return;
  const auto answer = client.value()->op(client::AllTenants::local(), "status", "{}");
  if (const auto* text = std::get_if<std::string>(&answer)) {
    patient.served = true;
    patient.status = *text;
  }
}

std::string line_of(const Finding& finding, bool colour) {
  const char* tint = finding.health == Health::kOk     ? "\033[32m"
                     : finding.health == Health::kWarn ? "\033[33m"
                                                       : "\033[31m";
  std::string line = colour ? tint : "";
  line += name_of(finding.health);
  line += finding.health == Health::kOk ? "  " : "";
  if (colour) line += "\033[0m";
  line += "  " + finding.what + ": " + finding.found;
  if (finding.health != Health::kOk) {
    line += ", expected " + finding.expected + " → " + finding.advice;
  }
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line + '\n';
}

json document_of(const std::vector<Finding>& findings) {
  json checks = json::array();
  std::int64_t counts[3] = {0, 0, 0};
  for (const Finding& finding : findings) {
    ++counts[static_cast<std::size_t>(finding.health)];
    checks.push_back({{"level", name_of(finding.health)},
                      {"what", finding.what},
                      {"found", finding.found},
                      {"expected", finding.expected},
                      {"do", finding.advice}});
  }
  return {{"ok", counts[2] == 0},
          {"passed", counts[0]},
          {"warnings", counts[1]},
          {"failed", counts[2]},
          {"checks", std::move(checks)}};
}

}  // namespace

std::int64_t knob_value(const Patient& patient, const char* name, std::int64_t fallback) {
  const json status = try_parse_json<json>(patient.status);
  if (!status.is_object()) return fallback;
  for (const json& limit : status.value("limits", json::array())) {
    if (limit.value("name", "") == name) return limit.value("limit", fallback);
  }
  return fallback;
}

std::string read_below(const Patient& patient, const std::string& path) {
  std::ifstream file(patient.root + path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Reports what the daemon itself finds wrong.
void check_daemon(Patient& patient) {
  if (!patient.served) {
    patient.ok("daemon", "none runs on " + patient.state);
    return;
  }
  const json status = try_parse_json<json>(patient.status);
  const json problems = status.is_object() ? status.value("problems", json::array()) : json();
  if (problems.empty()) patient.ok("daemon", "it answers and sees no problem");
  for (const json& problem : problems) {
    Finding finding;
    finding.health = problem.value("level", "") == "error" ? Health::kFail : Health::kWarn;
    finding.what = "daemon, " + problem.value("subject", "");
    finding.found = problem.value("what", "");
    finding.expected = "none of this";
    finding.advice = problem.value("hint", "");
    patient.findings.push_back(std::move(finding));
  }
}

int doctor(const Call& call) {
  std::error_code failed;
  Patient patient{call,
                  std::filesystem::absolute(call.state_dir, failed).lexically_normal(),
                  program_folder(),
                  call.text("root"),
                  false,
                  false,
                  {},
                  call.text("http", "127.0.0.1:8080"),
                  {}};
  patient.exists = std::filesystem::is_directory(patient.state, failed);
  ask_daemon(patient);
  for (const Check check : kChecks) check(patient);
  const json document = document_of(patient.findings);
  if (call.json) {
    print_document(call, document);
  } else {
    std::string text;
    for (const Finding& finding : patient.findings) text += line_of(finding, use_colour());
    text += std::to_string(patient.findings.size()) + " checks, " +
            std::to_string(document["warnings"].get<int>()) + " warnings, " +
            std::to_string(document["failed"].get<int>()) + " failed\n";
    print_lines(text, std::strlen("warn  "));
  }
  return document["ok"].get<bool>() ? kExitDone : kExitFailed;
}

}  // namespace holdfast::cli
