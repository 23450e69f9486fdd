#include "bench/matrix_run/cells.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <sstream>

namespace holdfast::bench {
namespace {

bool matches(const std::string& name, const std::string& patterns) {
  if (patterns.empty()) return true;
  std::istringstream in(patterns);
  for (std::string one; std::getline(in, one, ',');) {
    if (fnmatch(one.c_str(), name.c_str(), 0) == 0) return true;
  }
  return false;
}

double bits_of(const std::string& type) {
  static const std::map<std::string, double> bits = {
      {"Q4_0", 4.6}, {"Q4_K_M", 5.0}, {"Q8_0", 8.5}, {"BF16", 16}};
  const auto at = bits.find(type);
  return at == bits.end() ? 16 : at->second;
}

}  // namespace

std::string Cell::name() const {
  return model() + "/" + std::to_string(context) + "/" + std::to_string(streams);
}

double Cell::prompt_tokens() const {
  if (!times_prefill()) return 0;
  const auto tokens = static_cast<double>(context);
  return tokens * prefill_samples() + std::min(tokens, 512.0);  // and one prompt that is not timed
}

double Cell::file_bytes() const {
  return shape.parameters * bits_of(type) / 8;
}

Axes standard_axes() {
  return {{{"0.5B", "qwen2.5-0.5b", 0.494e9},
           {"1.5B", "qwen2.5-1.5b", 1.544e9},
           {"3B", "llama3.2-3b", 3.21e9},
           {"7B", "mistral-7b", 7.25e9}},
          {"Q4_0", "Q4_K_M", "Q8_0", "BF16"},
          {512, 2048, 4096, 32'768},
          {1, 4, 16, 64}};
}

Axes quick_axes() {
  return {{{"tiny", "tiny", 1e5}}, {"Q8_0", "BF16"}, {128, 256}, {1, 2}};
}

std::vector<Cell> cells_of(const Axes& axes, const std::string& only) {
  std::vector<Cell> out;
  for (const Shape& shape : axes.shapes) {
    for (const std::string& type : axes.types) {
      std::vector<Cell> of_model;
      for (const std::int64_t context : axes.contexts) {
        for (const std::int32_t streams : axes.streams) {
          const Cell cell{shape, type, context, streams};
          if (matches(cell.name(), only)) of_model.push_back(cell);
        }
      }
      std::stable_sort(of_model.begin(), of_model.end(), [](const Cell& a, const Cell& b) {
        return a.context != b.context ? a.context < b.context : a.streams < b.streams;
      });
      out.insert(out.end(), of_model.begin(), of_model.end());
    }
  }
  return out;
}

void CellTimeModel::learn(const Cell& cell, double prefill_tok_s, double decode_tok_s) {
  if (prefill_tok_s > 0) prefill_.push_back({cell, prefill_tok_s});
  if (decode_tok_s > 0) decode_.push_back({cell, decode_tok_s / cell.streams});
}

/// The measurement nearest to a cell: of the same model if there is one, then of the nearest
/// context.
const CellTimeModel::Measurement* CellTimeModel::nearest(const std::vector<Measurement>& measured,
                                                         const Cell& cell) {
  const auto distance = [&](const Measurement& k) {
    const double model = std::fabs(std::log(k.cell.file_bytes() / cell.file_bytes()));
    const double context = std::fabs(std::log(static_cast<double>(k.cell.context) / cell.context));
    const double streams = std::fabs(std::log(static_cast<double>(k.cell.streams) / cell.streams));
    return 1e6 * model + 1e3 * context + streams;
  };
  const auto at =
      std::min_element(measured.begin(), measured.end(),
                       [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  return at == measured.end() ? nullptr : &*at;
}

std::optional<double> CellTimeModel::prefill_seconds(const Cell& cell) const {
  if (!cell.times_prefill()) return 0;
  const Measurement* measured = nearest(prefill_, cell);
  if (measured == nullptr) return std::nullopt;
  const double larger = cell.shape.parameters / measured->cell.shape.parameters;
  return cell.file_bytes() / 1e9 + cell.prompt_tokens() * larger / measured->rate;
}

std::optional<double> CellTimeModel::decode_seconds(const Cell& cell) const {
  const Measurement* measured = nearest(decode_, cell);
  if (measured == nullptr) return std::nullopt;
  const double larger = cell.shape.parameters / measured->cell.shape.parameters;
  const double step = larger / measured->rate;  // of about as many streams
  return cell.file_bytes() / 1e9 + step * kDecodeSteps * kDecodeSamples;
}

}  // namespace holdfast::bench
