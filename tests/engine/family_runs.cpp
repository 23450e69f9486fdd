#include "tests/engine/family_runs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "ops/model_tools/synth_family.h"

namespace holdfast {

using backend::Wants;

std::size_t FamilyModel::columns() const {
  return static_cast<std::size_t>(program.shape.causal ? program.shape.vocab : width());
}

FamilyModel family_of(std::shared_ptr<const gguf::File> file, std::int32_t n_tokens) {
  FamilyModel m;
  m.file = std::move(file);
  const auto shape = plan::read_shape(*m.file);
  EXPECT_TRUE(shape.has_value()) << shape.error().what;
  if (!shape.has_value()) return m;
  auto program = model::build_program(*m.file, *shape);
  EXPECT_TRUE(program.has_value()) << program.error().what;
  if (!program.has_value()) return m;
  m.program = std::move(program).value();
  for (std::int32_t i = 0; i < n_tokens; ++i) {
    m.tokens.push_back(static_cast<std::int32_t>((i * 7919 + 13) % shape->vocab));
  }
  return m;
}

FamilyModel make_family(const std::string& architecture, std::uint64_t seed, std::int32_t n_tokens,
                        const std::string& type, const std::string& scaling) {
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("holdfast-family-" + std::to_string(::getpid()) + ".gguf"))
                               .string();
  const auto made = cli::synth_family(architecture, path, type, seed, scaling);
  EXPECT_TRUE(made.has_value()) << made.error().what;
  auto file = gguf::File::open(path);
  std::filesystem::remove(path);
  EXPECT_TRUE(file.has_value()) << file.error().what;
  return family_of(std::move(file).value(), n_tokens);
}

backend::LoadOptions load_options(const FamilyModel& m, const RunOptions& o) {
  const auto n = static_cast<std::int32_t>(m.tokens.size());
  backend::LoadOptions load;
  load.limits.context = o.context > 0 ? o.context : n + 1;
  load.limits.pages = 3 * (n / 64 + 1);
  load.limits.batch_tokens = 2 * n;
  load.limits.batch_segments = 2;
  load.limits.logit_rows = 2 * n;
  load.limits.kv_type = o.kv;
  load.threads = o.threads;
  load.kernels = o.kernels;
  load.cache_dir = o.cache_dir;
  return load;
}

std::vector<float> run_family(const FamilyModel& m, const RunOptions& o) {
  auto executor = backend::load(o.device, m.program, load_options(m, o));
  EXPECT_TRUE(executor.has_value()) << executor.error().what;
  if (!executor.has_value()) return {};
  return run_on(**executor, m, o);
}

std::string test_name(std::string architecture) {
  std::replace(architecture.begin(), architecture.end(), '-', '_');
  return architecture;
}

namespace {

std::int32_t chunk_of(const FamilyModel& m, const RunOptions& o) {
  const auto n = static_cast<std::int32_t>(m.tokens.size());
  return o.chunk > 0 && m.program.shape.causal ? o.chunk : n;
}

}  // namespace

bool wants_row(const FamilyModel& m, const RunOptions& o, std::int32_t i) {
  const auto n = static_cast<std::int32_t>(m.tokens.size());
  const std::int32_t chunk = chunk_of(m, o);
  const std::int32_t end = std::min(n, (i / chunk + 1) * chunk);
  if (o.sparse_logits && !m.program.shape.causal) return i == n / 2;
  return !o.sparse_logits || end - i <= (end == n ? 1 : i / chunk % 3);
}

bool same_requested_rows(const FamilyModel& m, const RunOptions& o, const std::vector<float>& have,
                         const std::vector<float>& want) {
  if (have.size() != want.size() || have.size() != m.tokens.size() * m.columns()) return false;
  for (std::size_t i = 0; i < m.tokens.size(); ++i) {
    const std::size_t at = i * m.columns();
    if (wants_row(m, o, static_cast<std::int32_t>(i)) &&
        std::memcmp(&have[at], &want[at], m.columns() * sizeof(float)) != 0) {
      return false;
    }
  }
  return true;
}

namespace {

/// A chunk of m's tokens from `at` on, in its pages, and the other sequence next to it.
struct Step {
  backend::Batch batch;
  std::int32_t n = 0;       // its tokens
  std::int32_t before = 0;  // tokens of the batch before it
  std::int32_t rows = 0;    // logit rows before its own
};
Step step_of(const FamilyModel& m, const RunOptions& o, std::int32_t at,
             const std::vector<std::int32_t>& other, const std::vector<std::int32_t> (&pages)[2]) {
  const auto n = static_cast<std::int32_t>(m.tokens.size());
  const bool causal = m.program.shape.causal;
  const std::int32_t now = std::min(chunk_of(m, o), n - at);
  backend::Segment mine{m.tokens.data() + at, now, at, pages[0].data()};
  std::int32_t rows = 0;
  for (std::int32_t i = at; i < at + now && causal; ++i) rows += wants_row(m, o, i);
  mine.wants = causal            ? Wants::logits(rows)
               : o.sparse_logits ? Wants::hidden_of(n / 2)
                                 : Wants::hidden();
  mine.prefill_heavy = o.prefill_heavy;
  Step step;
  step.n = now;
  std::vector<backend::Segment>& segments = step.batch.segments;
  segments.push_back(mine);
  if (!o.neighbour) return step;
  // A state goes on where it ended; the neighbour's begins anew with each chunk instead.
  const std::int32_t there = causal && m.program.shape.attention_step == 0 ? at : 0;
  const std::int32_t theirs = causal ? std::min(5, n - at) : n / 2 + 1;
  backend::Segment other_segment{other.data() + there, theirs, there, pages[1].data()};
  other_segment.wants = causal ? Wants::logits(o.sparse_logits ? 1 : 0) : Wants::hidden();
  other_segment.prefill_heavy = o.neighbour_prefill_heavy;
  other_segment.states.at = 1;
  if (o.neighbour_prefill_heavy && !o.prefill_heavy) {
    segments.push_back(other_segment);
    return step;
  }
  segments.insert(segments.begin(), other_segment);
  step.before = other_segment.n;
  step.rows = other_segment.wants.logit_rows();
  return step;
}

/// Expects that what an executor says of a row of logits is so.
void expect_maxima(const backend::LogitRow& row, std::int64_t vocab) {
  for (std::int64_t id = 0; id < vocab && row.maxima != nullptr; id += backend::kBlockIds) {
    const float* end = row.at + std::min<std::int64_t>(vocab, id + backend::kBlockIds);
    EXPECT_EQ(row.maxima[id / backend::kBlockIds], *std::max_element(row.at + id, end))
        << "from id " << id;
  }
}

}  // namespace

std::vector<float> run_on(backend::Executor& executor, const FamilyModel& m, const RunOptions& o) {
  const auto n = static_cast<std::int32_t>(m.tokens.size());
  std::vector<std::int32_t> pages[2];
  for (std::int32_t p = 0; p <= n / 64; ++p) {
    for (int i = 0; i < 2; ++i) pages[i].push_back(3 * p + 1 + i);
  }
  const std::vector<std::int32_t> other(m.tokens.rbegin(), m.tokens.rend());
  std::vector<float> out;
  const std::uint64_t taken = executor.counters().allocations;
  for (std::int32_t at = 0; at < n; at += chunk_of(m, o)) {
    const Step step = step_of(m, o, at, other, pages);
    const auto result = executor.forward(step.batch);
    EXPECT_TRUE(result.has_value()) << result.error().what;
    if (!result.has_value()) return {};
    std::int32_t next = step.rows;
    for (std::int32_t i = 0; i < step.n; ++i) {
      if (!wants_row(m, o, at + i)) {
        out.resize(out.size() + m.columns());
        continue;
      }
      backend::LogitRow row;
      if (m.program.shape.causal) {
        row = result->logits(next++);
        expect_maxima(row, m.program.shape.vocab);
      } else {
        row.at = result->hidden(step.before + i);
      }
      out.insert(out.end(), row.at, row.at + m.columns());
    }
  }
  EXPECT_EQ(executor.counters().allocations, taken);
  return out;
}

}  // namespace holdfast
