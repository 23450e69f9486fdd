// Reports as files: the records of bench/records.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/lib/report.h"
#include "shared/base/json_text.h"

namespace holdfast::bench {
namespace {

using nlohmann::ordered_json;

std::optional<Better> better_of(const ordered_json& one) {
  const std::string text = one.value("better", "");
  if (text == "lower") return Better::kLower;
  if (text == "higher") return Better::kHigher;
  return std::nullopt;
}

Figure figure_of(const ordered_json& one) {
  Figure figure;
  figure.name = one.at("name").get<std::string>();
  figure.value = one.at("value").get<double>();
  figure.unit = one.at("unit").get<std::string>();
  figure.note = one.value("note", "");
  figure.better = better_of(one);
  if (one.contains("goal")) {
    figure.goal = Goal{one["goal"].get<double>(), figure.better.value_or(Better::kLower)};
  }
  figure.samples = one.value("samples", std::vector<double>{});
  return figure;
}

/// A report from what `holdfast --json bench` prints.
Report bench_report(const ordered_json& document) {
  Report report("bench");
  for (const char* name : {"kernels", "threads", "streams", "context", "prompt_tokens"}) {
    const ordered_json& value = document.at(name);
    report.fact(name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  for (const char* name : {"prefill", "decode"}) {
    auto samples = document.at(std::string(name) + "_samples").get<std::vector<double>>();
    if (samples.empty()) continue;  // that was not requested
    report.add_samples(name, std::move(samples), "tokens/s", Better::kHigher);
  }
  return report;
}

}  // namespace

Result<Report> parse_report(const std::string& text) {
  try {  // no exception leaves this function
    const ordered_json document = try_parse_json<ordered_json>(text);
    if (document.contains("decode_samples")) return bench_report(document);
    Report report(document.at("kind").get<std::string>());
    for (const auto& [name, value] : document.at("machine").items()) {
      report.fact(name, value.get<std::string>());
    }
    for (const ordered_json& one : document.at("figures")) report.restore(figure_of(one));
    const ordered_json skipped = document.value("skipped", ordered_json::object());
    for (const auto& [name, reason] : skipped.items()) {
      report.skip(name, reason.get<std::string>());
    }
    for (const ordered_json& one : document.at("problems")) report.problem(one.get<std::string>());
    return report;
  } catch (const nlohmann::json::exception& bad) {
    return Error{Errc::kFileInvalid, std::string("no record of a bench: ") + bad.what()};
  }
}

Result<Report> read_report(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Error{Errc::kNotFound, path + ": cannot be read"};
  Result<Report> report = parse_report({std::istreambuf_iterator<char>(file), {}});
  if (!report) return Error{report.error().code, path + ": " + report.error().what};
  return report;
}

Result<void> write_report(const Report& report, const std::string& path) {
  const std::string aside = path + ".new";
  std::ofstream file(aside);
  file << report.json() << "\n";
  file.close();
  std::error_code failed;
  if (file) std::filesystem::rename(aside, path, failed);
  if (!file || failed) return Error{Errc::kIo, "write record " + path + ": cannot be written"};
  return {};
}

}  // namespace holdfast::bench
