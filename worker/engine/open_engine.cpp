// Opens a model file as an engine that has already run once.

#include <future>
#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"
#include "shared/base/log.h"
#include "shared/gguf/read_guard.h"
#include "shared/huggingface/folder.h"
#include "shared/plan/plan.h"
#include "worker/engine/model_engine.h"
#include "worker/model/program.h"

namespace holdfast::engine {

namespace {

constexpr std::int64_t kGapMostMs = 60'000;

/// The results of the first prefill. Without any, it would have no last layer.
backend::Wants first_wants(const backend::Capabilities& can, const plan::ModelShape& shape) {
  if (!shape.causal || !can.no_logits.empty()) return backend::Wants::hidden();
  if (can.top_max == 0) return backend::Wants::logits(1);
  return backend::Wants::top(std::min(can.top_max, static_cast<std::int32_t>(shape.vocab)), 1);
}

/// Runs one prefill and one decode, so that a load which cannot compute fails here, and the first
/// request meets warm caches. The first page is written; its next owner writes before it reads.
Result<void> warm_up(backend::Executor& executor, const plan::ModelShape& shape,
                     std::int64_t context) {
  const auto vocab = static_cast<TokenId>(shape.vocab);
  std::vector<TokenId> tokens;
  for (TokenId id = 0; id < 17 && id < context; ++id) tokens.push_back(id % vocab);
  const std::int32_t page = 0;
  backend::Segment segment;
  segment.tokens = tokens.data();
  segment.n = std::max(1, static_cast<std::int32_t>(tokens.size()) - 1);
  segment.pages = &page;
  segment.wants = first_wants(executor.capabilities(), shape);
  HOLDFAST_CHECKED(executor.rehearse({{segment}}));
  if (tokens.size() < 2 || !shape.causal) return {};
  segment.tokens = tokens.data() + segment.n;
  segment.start = segment.n;
  segment.n = 1;
  const backend::Capabilities& can = executor.capabilities();
  segment.wants = !can.no_logits.empty() ? backend::Wants::hidden()
                  : can.greatest         ? backend::Wants::greatest(1)
                                         : backend::Wants::logits(1);
  HOLDFAST_CHECKED(executor.rehearse({{segment}}));
  return {};
}

struct Words {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const grammar::TokenTable> table;
};

/// Reads the tokenizer and its table: a quarter of a second of one thread for a large vocabulary.
Result<Words> read_words(const gguf::File& file) {
  Words words;
  HOLDFAST_TRY(words.tokenizer, text::Tokenizer::load(file));
  words.table = grammar::TokenTable::make(*words.tokenizer);
  return words;
}

Result<void> check_options(const EngineOptions& o, const std::string& path) {
  if (o.threads >= 1 && o.context >= 0 && o.slots >= 0 && o.pages >= 0 && o.prefill_chunk >= 0 &&
      o.prefill_chunk_busy >= 0 && o.logit_rows >= 0 && o.drafts <= kDraftsMax) {
    return {};
  }
  return Error{
      Errc::kInvalidRequest,
      "open engine " + path + ": threads must be at least 1, other numbers 0 (default) or more"};
}

/// The numbers of a load: what was asked for, else the envelope's, which the daemon reserved.
ModelEngineConfig configure(const plan::ModelShape& shape, const EngineOptions& o) {
  plan::LoadRequest load_request;
  load_request.context = o.context;
  load_request.slots = o.slots;
  load_request.pool_tokens = static_cast<std::int64_t>(o.pages) * plan::kPageTokens;
  load_request.kv_type = o.kv_type;
  load_request.prefill_chunk = o.prefill_chunk;
  load_request.threads = o.threads;
  const plan::Envelope envelope = plan::memory_envelope(shape, load_request);
  ModelEngineConfig c;
  c.vocab = static_cast<std::int32_t>(shape.vocab);
  c.context = envelope.context;
  c.slots = envelope.slots;
  c.pages = envelope.pages;
  c.prefill_chunk = static_cast<std::int32_t>(envelope.prefill_chunk);
  c.prefill_chunk_busy = o.prefill_chunk_busy > 0 ? o.prefill_chunk_busy : c.prefill_chunk;
  if (o.prefill_chunk_busy == 0) {
    c.gap_us = o.gap_ms < 0 ? StepTimeModel::kEven : std::int64_t{o.gap_ms} * 1000;
  }
  c.prefix_cache = o.prefix_cache;
  c.assume_prompts = o.assume_prompts;
  if (o.drafts >= 0) c.drafts = o.drafts;
  if (o.clock != nullptr) c.clock = o.clock;
  c.logit_rows = std::max(o.logit_rows, c.slots);
  c.width = shape.width;
  c.causal = shape.causal;
  c.recurrent = shape.attention_step > 0;
  c.model_sha = o.model_sha;
  return c;
}

/// The plan in the numerics class: the loaded context chooses longrope factors, so it is a part of
/// it.
std::string plan_name(const model::Program& program, std::int64_t context) {
  for (const model::Rope& rope : program.ropes) {
    if (!rope.inv_freq_long.empty() && context > rope.long_from) return "single-long";
  }
  return "single";
}

/// Opens the engine, without regard to a file that is cut meanwhile.
Result<std::unique_ptr<Engine>> open_guarded(const std::string& path,
                                             const EngineOptions& options) {
  HOLDFAST_TRY(const auto file, huggingface::open_model(path));
  for (const std::string& note : plan::notes_of(*file)) {
    log::info("load model", {{"model", path}, {"note", note}});
  }
  HOLDFAST_TRY(const plan::ModelShape shape, plan::read_shape(*file));
  ModelEngineConfig config = configure(shape, options);
  std::future<Result<Words>> reading;  // while the weights load
  if (shape.has_tokenizer) {
    reading = std::async(std::launch::async, [&file] { return read_words(*file); });
  }
  HOLDFAST_TRY(const model::Program program, model::build_program(*file, shape));
  if (program.details.pooling_named) config.pooling = program.details.pooling;
  backend::LoadOptions load;
  load.limits = limits_for(config, options.kv_type);
  load.threads = options.threads;
  load.kernels = options.kernels;
  load.progress = options.progress;
  load.weight_cache = options.weight_cache;
  load.weight_cache_key = options.model_sha;
  load.cache_dir = options.cache_dir;
  HOLDFAST_TRY(auto executor, backend::load(options.device, program, load));
  HOLDFAST_CHECKED(warm_up(*executor, shape, config.context));
  if (reading.valid()) {
    HOLDFAST_TRY(Words words, reading.get());
    const std::string_view warning = words.tokenizer->warning();
    if (!warning.empty()) log::warn("load tokenizer", {{"model", path}, {"warning", warning}});
    config.vocabulary.tokenizer = std::move(words.tokenizer);
    config.token_table = std::move(words.table);
  }
  const std::string sha = options.model_sha.empty() ? "-" : options.model_sha;
  config.numerics_class = executor->capabilities().class_prefix + "/" + sha + "/" +
                          options.kv_type + "/" + plan_name(program, config.context);
  return std::unique_ptr<Engine>(
      std::make_unique<ModelEngine>(std::move(executor), std::move(config)));
}

}  // namespace

Result<void> read_options(std::string_view options_json, EngineOptions& options) {
  if (options_json.empty()) return {};
  const auto json = try_parse_json<nlohmann::json>(options_json);
  const auto refuse = [](const std::string& what) {
    return Error{Errc::kInvalidRequest, "model options: " + what};
  };
  if (!json.is_object()) return refuse("expected a JSON object");
  if (const auto at = json.find("prefix_cache"); at != json.end()) {
    if (!at->is_boolean()) return refuse("prefix_cache: expected true or false");
    options.prefix_cache = at->get<bool>();
  }
  if (const auto at = json.find("drafts"); at != json.end()) {
    const auto n = at->is_number_integer() ? at->get<std::int64_t>() : -1;
    if (n < 0 || n > kDraftsMax) {
      return refuse("drafts: expected a number from 0 to " + std::to_string(kDraftsMax));
    }
    options.drafts = static_cast<std::int32_t>(n);
  }
  if (const auto at = json.find("gap_ms"); at != json.end()) {
    const auto n = at->is_number_integer() ? at->get<std::int64_t>() : -1;
    if (n < 0 || n > kGapMostMs) {
      return refuse("gap_ms: expected milliseconds from 0 (no bound) to " +
                    std::to_string(kGapMostMs));
    }
    options.gap_ms = static_cast<std::int32_t>(n);
  }
  if (const auto at = json.find("kernels"); at != json.end()) {
    if (!at->is_string()) return refuse("kernels: expected the name of a family, as \"amx\"");
    options.kernels = at->get<std::string>();
  }
  return {};
}

Result<std::unique_ptr<Engine>> open_engine(const std::string& path, const EngineOptions& options) {
  HOLDFAST_CHECKED(check_options(options, path));
  const gguf::ReadGuard guard;
  Result<std::unique_ptr<Engine>> engine = open_guarded(path, options);
  if (!guard.lost()) return engine;
  return Error{
      Errc::kFileInvalid,
      "open engine " + path +
          ": the file was cut, or its disk failed, while it was read; add the model again"};
}

}  // namespace holdfast::engine
