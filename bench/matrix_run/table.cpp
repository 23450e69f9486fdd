#include "bench/matrix_run/table.h"

#include <cstdio>
#include <map>
#include <set>
#include <sstream>
#include <vector>

namespace holdfast::bench {
namespace {

/// The parts of a name such as "0.5B/Q4_K_M/2048/16".
struct Name {
  std::string shape, type;
  std::int64_t context = 0, streams = 0;
};

Name parse(const std::string& cell) {
  Name out;
  std::istringstream in(cell);
  std::string context, streams;
  std::getline(in, out.shape, '/');
  std::getline(in, out.type, '/');
  std::getline(in, context, '/');
  std::getline(in, streams, '/');
  out.context = std::atoll(context.c_str());
  out.streams = std::atoll(streams.c_str());
  return out;
}

struct Row {
  std::map<std::int64_t, double> decode;  // by streams
  double prefill = 0;
};

std::string rate(double value) {
  if (value <= 0) return "–";
  char text[32];
  std::snprintf(text, sizeof text, value < 100 ? "%.1f" : "%.0f", value);
  return text;
}

class Table {
 public:
  void add(const std::string& cell, const std::string& what, double value) {
    const Name name = parse(cell);
    const std::string model = name.shape + " " + name.type;
    if (rows_.find(model) == rows_.end()) models_.push_back(model);
    Row& row = rows_[model][name.context];
    streams_.insert(name.streams);
    if (what == "prefill") row.prefill = value;
    if (what == "decode") row.decode[name.streams] = value;
  }
  std::string text() const {
    std::string out = "| model | context | prefill |";
    for (const auto s : streams_) {
      out += " decode, " + std::to_string(s) + (s == 1 ? " stream |" : " streams |");
    }
    out += "\n|---|---|---|";
    for (std::size_t i = 0; i < streams_.size(); ++i) out += "---|";
    out += "\n";
    for (const std::string& model : models_) {
      for (const auto& [context, row] : rows_.at(model)) {
        out += "| " + model + " | " + std::to_string(context) + " | " + rate(row.prefill) + " |";
        for (const auto s : streams_) {
          const auto at = row.decode.find(s);
          out += " " + rate(at == row.decode.end() ? 0 : at->second) + " |";
        }
        out += "\n";
      }
    }
    return out;
  }

 private:
  std::vector<std::string> models_;
  std::map<std::string, std::map<std::int64_t, Row>> rows_;
  std::set<std::int64_t> streams_;
};

}  // namespace

std::string matrix_markdown(const Report& report) {
  Table table;
  for (const Figure& figure : report.figures()) {
    const std::size_t dot = figure.name.rfind('.');
    if (figure.name.find('/') == std::string::npos || dot == std::string::npos) continue;
    table.add(figure.name.substr(0, dot), figure.name.substr(dot + 1), figure.value);
  }
  std::map<std::string, std::string> reasons;  // reason -> cells
  for (const auto& skipped : report.skipped()) {
    table.add(skipped.name, "", 0);
    std::string& cells = reasons[skipped.value];
    cells += (cells.empty() ? "" : ", ") + skipped.name;
  }
  std::string out = table.text();
  for (const auto& [reason, cells] : reasons) out += "\n- " + cells + ": " + reason;
  return out + (reasons.empty() ? "" : "\n");
}

}  // namespace holdfast::bench
