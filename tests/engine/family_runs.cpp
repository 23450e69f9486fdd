#include "tests/engine/family_runs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "ops/cli/synth_family.h"

namespace holdfast {

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
  return !o.few || !m.program.shape.causal || end - i <= (end == n ? 1 : i / chunk % 3);
}

std::vector<float> run_on(backend::Executor& executor, const FamilyModel& m, const RunOptions& o) {
  const auto n = static_cast<std::int32_t>(m.tokens.size());
  const bool causal = m.program.shape.causal;
  const std::int32_t chunk = chunk_of(m, o);
  std::vector<std::int32_t> mine, theirs;
  for (std::int32_t p = 0; p <= n / 64; ++p) {
    mine.push_back(3 * p + 1);
    theirs.push_back(3 * p + 2);
  }
  std::vector<std::int32_t> other(m.tokens.rbegin(), m.tokens.rend());
  std::vector<float> out;
  const std::uint64_t taken = executor.allocations();
  for (std::int32_t at = 0; at < n; at += chunk) {
    const std::int32_t now = std::min(chunk, n - at);
    std::vector<backend::Segment> segments;
    const std::int32_t before = causal ? std::min(5, n - at) : n / 2 + 1;
    // A state goes on where it ended; it begins anew with each chunk instead.
    const std::int32_t there = causal && m.program.shape.attention_step == 0 ? at : 0;
    if (o.neighbour)
      segments.push_back({other.data() + there, before, there, theirs.data(), 0, false});
    for (backend::Segment& s : segments) {
      s.reads = o.neighbour_reads;
      s.state = 1;
      s.n_logits = causal && o.few ? 1 : 0;
    }
    std::int32_t wanted = 0;
    for (std::int32_t i = at; i < at + now && causal; ++i) wanted += wants_row(m, o, i) ? 1 : 0;
    segments.push_back({m.tokens.data() + at, now, at, mine.data(), wanted, false});
    segments.back().reads = o.reads;
    const bool behind = o.neighbour && o.neighbour_reads && !o.reads;
    if (behind) std::swap(segments[0], segments[1]);
    for (backend::Segment& s : segments) s.hidden = !causal;
    const auto rows = executor.forward(segments);
    EXPECT_TRUE(rows.has_value()) << rows.error().what;
    if (!rows.has_value()) return {};
    const auto columns = static_cast<std::ptrdiff_t>(m.columns());
    const float* row = *rows + (behind || !o.neighbour ? 0 : segments[0].n_logits) * columns;
    if (causal) {
      out.resize(out.size() + static_cast<std::size_t>((now - wanted) * columns));
      out.insert(out.end(), row, row + wanted * columns);
    }
    for (std::int32_t i = 0; i < now && !causal; ++i) {
      row = executor.hidden((o.neighbour && !behind ? before : 0) + i);
      out.insert(out.end(), row, row + m.width());
    }
  }
  EXPECT_EQ(executor.allocations(), taken);
  return out;
}

}  // namespace holdfast
