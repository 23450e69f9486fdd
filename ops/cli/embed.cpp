// `holdfast embed`: the vectors of texts by the serving engine, in this process.

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "ops/cli/run_remote.h"
#include "ops/cli/text_input.h"
#include "ops/cli/tokenize.h"
#include "ops/cli/verb_functions.h"
#include "ops/terminal/output.h"
#include "shared/base/processors.h"
#include "worker/engine/engine.h"

namespace holdfast::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::pair<const char*, plan::Pooling> kPoolings[] = {{"none", plan::Pooling::kNone},
                                                               {"mean", plan::Pooling::kMean},
                                                               {"cls", plan::Pooling::kCls},
                                                               {"last", plan::Pooling::kLast}};

Result<std::optional<plan::Pooling>> pooling_of(const Call& call) {
  if (!call.has("pooling")) return std::optional<plan::Pooling>{};
  for (const auto& [name, pooling] : kPoolings) {
    if (call.text("pooling") == name) return std::optional<plan::Pooling>{pooling};
  }
  return Error{Errc::kUsage, "embed: pooling \"" + call.text("pooling") +
                                 "\" is unknown, expected none, mean, cls or last"};
}

/// The inputs: every TEXT, or each list of ids given with --tokens.
Result<std::vector<std::vector<std::int32_t>>> inputs_of(const Call& call) {
  std::vector<std::vector<std::int32_t>> out;
  for (const std::string& list : call.list("tokens")) {
    HOLDFAST_TRY(auto ids, parse_ids(list));
    out.push_back(std::move(ids));
  }
  std::vector<std::string> texts = call.list("TEXT");
  if (texts == std::vector<std::string>{"-"} || (texts.empty() && out.empty())) {
    HOLDFAST_TRY(std::string text, text_argument(call, "TEXT"));
    texts = {std::move(text)};
  }
  for (const std::string& text : texts) {
    HOLDFAST_TRY(auto ids, tokenize_file(call.text("FILE"), text, {}));
    out.push_back(std::move(ids));
  }
  return out;
}

ordered_json vectors_json(const engine::Produced& p) {
  const auto width = p.embedding.size() / static_cast<std::size_t>(p.vectors);
  const auto row = [&](std::size_t i) {
    const auto at = p.embedding.begin() + static_cast<std::ptrdiff_t>(i * width);
    return std::vector<float>(at, at + static_cast<std::ptrdiff_t>(width));
  };
  if (p.vectors == 1) return row(0);
  ordered_json all = ordered_json::array();
  for (std::size_t i = 0; i < static_cast<std::size_t>(p.vectors); ++i) all.push_back(row(i));
  return all;
}

Result<ordered_json> embed_all(const Call& call) {
  HOLDFAST_TRY(const auto pooling, pooling_of(call));
  HOLDFAST_TRY(const auto inputs, inputs_of(call));
  engine::EngineOptions options;
  options.device = call.text("device", "cpu");
  options.kernels = call.text("kernels");
  options.kv_type = call.text("kv-type", "f16");
  options.threads = static_cast<std::int32_t>(call.integer("threads", usable_processors()));
  options.slots = static_cast<std::int32_t>(std::min<std::size_t>(inputs.size(), 16));
  HOLDFAST_TRY(const auto engine, engine::open_engine(call.text("FILE"), options));
  ordered_json rows = ordered_json::array();
  for (std::size_t i = 0; i < inputs.size(); ++i) rows.push_back(nullptr);
  std::size_t added = 0, done = 0;
  while (done < inputs.size()) {
    while (added < inputs.size() && added - done < static_cast<std::size_t>(options.slots)) {
      engine::EmbedSpec spec;
      spec.key = added;
      spec.tokens = inputs[added++];
      spec.pooling = pooling;
      spec.normalize = !call.has("no-normalize");
      HOLDFAST_CHECKED(engine->add_embedding(spec));
    }
    for (const engine::Produced& p : engine->step()) {
      if (p.finish == wire::FinishReason::kError) return p.error;
      rows[p.key] = {
          {"index", p.key}, {"tokens", inputs[p.key].size()}, {"embedding", vectors_json(p)}};
      ++done;
    }
  }
  return ordered_json{{"file", call.text("FILE")},
                      {"class", engine->describe().numerics_class},
                      {"data", std::move(rows)}};
}

}  // namespace

int embed(const Call& call) {
  std::error_code ignored;
  const bool file = std::filesystem::exists(call.text("FILE"), ignored);
  if (call.remote && !file) return embed_over_http(call);
  const auto document = embed_all(call);
  if (!document) return report_error(call, document.error());
  std::printf("%s\n", document->dump(call.json ? -1 : 1).c_str());
  return kExitDone;
}

}  // namespace holdfast::cli
