#include "bench/lib/report.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace holdfast::bench {
namespace {

double rounded(double v) {
  if (v == 0 || !std::isfinite(v)) return 0;
  const double scale = std::pow(10.0, 3 - std::floor(std::log10(std::fabs(v))));  // four digits
  return std::fabs(v) >= 10'000 ? std::round(v) : std::round(v * scale) / scale;
}

std::string number(double v) {
  char text[64];
  std::snprintf(text, sizeof text, "%.10g", rounded(v));
  return text;
}

}  // namespace

bool Figure::meets_goal() const {
  if (!goal) return true;
  return goal->better == Better::kLower ? value <= goal->value : value >= goal->value;
}

void Report::add(Figure figure) {
  if (!std::isfinite(figure.value)) {
    problem(figure.name + " is not a number");
    figure.value = 0;
  }
  std::fprintf(stderr, "  %-44s %12s %s\n", figure.name.c_str(), number(figure.value).c_str(),
               figure.unit.c_str());
  figures_.push_back(std::move(figure));
}

void Report::add(const std::string& name, double value, const std::string& unit,
                 std::optional<Goal> goal, const std::string& note) {
  add(Figure{name, unit, value, goal, note, std::nullopt, {}});
}

void Report::add(const std::string& name, const Summary& s, const std::string& unit,
                 const std::string& goal_of, std::optional<Goal> goal) {
  const std::pair<const char*, double> parts[] = {
      {"p50", s.p50}, {"p95", s.p95}, {"p99", s.p99}, {"max", s.max}};
  for (const auto& [part, value] : parts) {
    add(name + "." + part, value, unit, goal_of == part ? goal : std::nullopt);
  }
  add(name + ".n", static_cast<double>(s.n), "samples");
}

void Report::add_samples(const std::string& name, std::vector<double> samples,
                         const std::string& unit, Better better, std::optional<Goal> goal,
                         const std::string& note) {
  Figure figure{name, unit, median(samples), goal, note, better, {}};
  figure.samples = std::move(samples);
  add(std::move(figure));
}

const Figure* Report::find(const std::string& name) const {
  for (const Figure& figure : figures_) {
    if (figure.name == name) return &figure;
  }
  return nullptr;
}

namespace {

nlohmann::ordered_json figure_json(const Figure& figure) {
  nlohmann::ordered_json one;
  one["name"] = figure.name;
  one["value"] = rounded(figure.value);
  one["unit"] = figure.unit;
  if (figure.goal) {
    one["goal"] = rounded(figure.goal->value);
    one["met"] = figure.meets_goal();
  }
  if (figure.goal || figure.better) {
    const Better better = figure.goal ? figure.goal->better : *figure.better;
    one["better"] = better == Better::kLower ? "lower" : "higher";
  }
  for (const double sample : figure.samples) one["samples"].push_back(rounded(sample));
  if (!figure.note.empty()) one["note"] = figure.note;
  return one;
}

std::string goal_text(const Figure& figure) {
  if (!figure.goal) return {};
  return (figure.goal->better == Better::kLower ? "<= " : ">= ") + number(figure.goal->value) +
         (figure.meets_goal() ? "  ok" : "  MISSED");
}

}  // namespace

std::string Report::json() const {
  nlohmann::ordered_json document;
  document["kind"] = kind_;
  for (const Fact& fact : facts_) document["machine"][fact.name] = fact.value;
  document["figures"] = nlohmann::ordered_json::array();
  for (const Figure& figure : figures_) document["figures"].push_back(figure_json(figure));
  for (const Fact& cell : skipped_) document["skipped"][cell.name] = cell.value;
  document["problems"] = problems_;
  return document.dump(1);
}

std::string Report::table() const {
  std::string out;
  for (const Fact& fact : facts_) out += fact.name + ": " + fact.value + "\n";
  char line[256];
  std::snprintf(line, sizeof line, "%-36s %11s %-10s %s\n", "figure", "value", "unit", "goal");
  out += line;
  for (const Figure& figure : figures_) {
    const std::string goal = goal_text(figure);
    std::snprintf(line, sizeof line, "%-36s %11s %-10s %s", figure.name.c_str(),
                  number(figure.value).c_str(), figure.unit.c_str(), goal.c_str());
    out += line;
    if (!figure.note.empty()) out += (goal.empty() ? "# " : "\n  # ") + figure.note;
    out += "\n";
  }
  for (const Fact& cell : skipped_) out += "skipped " + cell.name + ": " + cell.value + "\n";
  for (const std::string& problem : problems_) out += "PROBLEM: " + problem + "\n";
  return out;
}

void describe_machine(const std::string& dir, Report& report) {
  const MachineFacts facts = read_machine(dir);
  report.fact("processor", facts.processor);
  report.fact("processors", std::to_string(facts.processors));
  report.fact("memory_mib", std::to_string(facts.memory_bytes >> 20));
  report.fact("kernel", facts.kernel);
  report.fact("filesystem", facts.filesystem);
  double load = 0;
  if (getloadavg(&load, 1) == 1) report.fact("load_before", number(load));
}

}  // namespace holdfast::bench
