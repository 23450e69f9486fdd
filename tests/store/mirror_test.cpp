// Goal: every column of every row comes back as it was written, through each way that reads it.
// Method: random changes with every field drawn go into a store and into plain maps; the store is
// opened again now and then, and all that can be read is compared with the maps, field by field.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <sstream>

#include "control/store/store.h"
#include "tests/core/row_text.h"
#include "tests/store/temp_state.h"

namespace holdfast::store::mirror_test {
namespace {

using core::row_text;

using core::RequestState;

// ---- rows as text, each field named, so that a difference can be read

struct Text {
  std::ostringstream out;
  template <class T>
  Text& add(const char* name, const T& value) {
    out << name << '=' << value << '\n';
    return *this;
  }
  template <class T>
  Text& list(const char* name, const std::vector<T>& values) {
    out << name << "=[";
    for (const T& v : values) out << v << ',';
    out << "]\n";
    return *this;
  }
};

std::string text_of(const wire::Sampling& s) {
  Text t;
  t.out << std::hexfloat;
  t.add("temperature", s.temperature).add("top_k", s.top_k).add("top_p", s.top_p);
  t.add("min_p", s.min_p).add("seed", s.seed).add("ignore_eos", s.ignore_eos);
  t.add("min_tokens", s.min_tokens).add("logprobs", s.logprobs);
  t.add("repetition", s.repetition_penalty).add("presence", s.presence_penalty);
  t.add("frequency", s.frequency_penalty).add("extra", s.extra);
  t.add("prompt_logprobs", s.prompt_logprobs);
  return t.out.str();
}

std::string text_of(const Store::Attempt& a) {
  Text t;
  t.add("choice", a.choice).add("epoch", a.fence.epoch).add("counter", a.fence.counter);
  t.add("key", a.worker_key).add("incarnation", a.incarnation).add("load", a.load_id);
  t.add("reason", a.reason).add("start", a.start_index).add("end", a.end_index);
  t.add("started", a.started_ms).add("ended", a.ended_ms).add("adopted", a.adopted);
  return t.out.str();
}

// ---- the maps

struct Stored {
  core::InsertRequest insert;  // row and choices as they are now
  std::vector<std::vector<core::TokenId>> ids;
  std::vector<std::vector<std::string>> extra;
  std::vector<Store::Attempt> attempts;  // in the order of their fences
};

struct Mirror {
  std::mt19937_64 random;
  std::map<core::Seq, Stored> requests;
  std::map<std::string, core::ModelRow> models;
  std::map<std::string, core::LoadRow> loads;
  std::map<std::string, ModelBlobs> blobs;
  std::map<std::string, std::string> flags;
  core::Seq last_seq = 0;
  std::uint64_t fences = 0;

  explicit Mirror(std::uint64_t seed) : random(seed) {}

  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  }
  bool coin() { return draw(0, 1) == 1; }
  std::int64_t big() { return draw(1, 1LL << 53); }
  std::int32_t i32() { return static_cast<std::int32_t>(draw(1, 1 << 30)); }
  std::string word() {
    std::string text(static_cast<std::size_t>(draw(1, 12)), ' ');
    for (char& c : text) c = static_cast<char>(draw('a', 'z'));
    return text;
  }
  std::string bytes() {
    std::string text(static_cast<std::size_t>(draw(0, 40)), ' ');
    for (char& c : text) c = static_cast<char>(draw(-128, 127));
    return text;
  }
  float real() { return static_cast<float>(draw(-1'000'000, 1'000'000)) / 7919.0f; }
  std::vector<core::TokenId> some_ids(std::int64_t low, std::int64_t high) {
    std::vector<core::TokenId> ids(static_cast<std::size_t>(draw(low, high)));
    for (core::TokenId& id : ids) id = static_cast<core::TokenId>(draw(0, 200'000));
    return ids;
  }

  core::RowChange insert_request() {
    Stored s;
    core::RequestRow& r = s.insert.row;
    r.seq = ++last_seq;
    r.id = word() + std::to_string(r.seq);
    r.tenant = word();
    if (coin()) r.idem_key = word() + std::to_string(r.seq);
    r.body_hash = word();
    r.model = word();
    r.model_sha = word();
    r.priority = static_cast<core::PriorityClass>(draw(0, 2));
    r.config_version = big();
    r.n = static_cast<std::int32_t>(draw(1, 3));
    r.max_tokens = big();
    r.on_disconnect = coin() ? wire::OnDisconnect::kCancel : wire::OnDisconnect::kContinue;
    r.created_ms = big();
    r.queue_deadline_ms = coin() ? big() : 0;
    r.total_deadline_ms = coin() ? big() : 0;
    if (coin()) r.alias = word();
    if (coin()) r.route_key = random();
    r.canary = coin() ? big() : 0;
    if (coin()) r.api_key = word();
    core::PayloadRow& p = s.insert.payload;
    p.sampling = {real(), i32(), real(), real(), random(), coin(),
                  i32(),  i32(), real(), real(), real(),   coin() ? word() : ""};
    if (coin()) p.sampling.prompt_logprobs = static_cast<std::int32_t>(draw(0, 64));
    for (std::int64_t i = draw(0, 2); i > 0; --i) p.stops.push_back(bytes() + "x");
    p.echo = coin();
    p.meta = coin() ? word() : "";
    const std::int64_t prompts = draw(1, 3);
    for (std::int64_t i = 0; i < prompts; ++i) {
      p.prompt_ids.push_back(some_ids(1, 300));
      if (p.echo) p.prompt_text.push_back(word());
    }
    for (std::int32_t c = 0; c < static_cast<std::int32_t>(prompts) * r.n; ++c) {
      core::ChoiceRow choice;
      choice.choice = c;
      choice.prompt = c / r.n;
      s.insert.choices.push_back(choice);
    }
    s.ids.resize(s.insert.choices.size());
    s.extra.resize(s.insert.choices.size());
    const core::InsertRequest insert = s.insert;
    requests[r.seq] = std::move(s);
    return insert;
  }

  Stored& any() {
    auto it = requests.begin();
    std::advance(it, draw(0, static_cast<std::int64_t>(requests.size()) - 1));
    return it->second;
  }
  core::RowChange update_request() {
    core::RequestRow& r = any().insert.row;
    if (draw(0, 3) == 0) {
      r.rerouted_from = r.model;
      r.model = word();
      r.model_sha = word();
      r.canary = 0;
      return core::AliasChange{core::RerouteRequest{r.seq, r.model, r.model_sha, r.rerouted_from}};
    }
    r.state = static_cast<RequestState>(draw(0, static_cast<int>(RequestState::kQuarantined)));
    r.priority = static_cast<core::PriorityClass>(draw(0, 2));
    r.numerics_class = coin() ? word() : "";
    r.started_ms = r.state == RequestState::kQueued && coin() ? 0 : big();
    r.finished_ms = wire::is_terminal(r.state) ? big() : 0;
    r.error_code = coin() ? word() : "";
    r.error = coin() ? word() : "";
    return core::UpdateRequest{r.seq,        r.state,       r.priority,   r.numerics_class,
                               r.started_ms, r.finished_ms, r.error_code, r.error};
  }
  void add_tokens(std::vector<core::RowChange>& rows) {
    Stored& s = any();
    const auto c =
        static_cast<std::size_t>(draw(0, static_cast<std::int64_t>(s.insert.choices.size()) - 1));
    core::ChoiceRow& row = s.insert.choices[c];
    core::InsertChunk chunk;
    chunk.seq = s.insert.row.seq;
    chunk.choice = row.choice;
    chunk.start = row.next_index;
    chunk.ids = some_ids(1, 6);
    if (coin()) {
      for (std::size_t i = 0; i < chunk.ids.size(); ++i) chunk.extra.push_back(bytes());
    }
    for (std::size_t i = 0; i < chunk.ids.size(); ++i) {
      s.ids[c].push_back(chunk.ids[i]);
      s.extra[c].push_back(chunk.extra.empty() ? std::string() : chunk.extra[i]);
    }
    row.next_index += static_cast<std::int64_t>(chunk.ids.size());
    row.deaths = i32();
    row.deaths_index = draw(-1, 1000);
    row.error_code = coin() ? word() : "";
    row.error = coin() ? word() : "";
    if (draw(0, 3) == 0) {
      row.finish =
          static_cast<core::FinishReason>(draw(0, static_cast<int>(core::FinishReason::kExpired)));
    }
    rows.emplace_back(std::move(chunk));
    rows.emplace_back(core::UpdateChoice{s.insert.row.seq, row});
  }
  core::RowChange begin_attempt() {
    Stored& s = any();
    Store::Attempt a;
    a.choice =
        static_cast<std::int32_t>(draw(0, static_cast<std::int64_t>(s.insert.choices.size()) - 1));
    a.fence = {static_cast<std::uint64_t>(7), ++fences};
    a.worker_key = word();
    a.incarnation = word();
    a.load_id = word();
    a.start_index = big();
    a.started_ms = big();
    a.adopted = coin();
    s.attempts.push_back(a);
    return core::BeginAttempt{s.insert.row.seq, a.choice,      a.fence,
                              a.worker_key,     a.incarnation, a.load_id,
                              a.start_index,    a.adopted,     a.started_ms};
  }
  void end_attempt(std::vector<core::RowChange>& rows) {
    Stored& s = any();
    for (Store::Attempt& a : s.attempts) {
      if (a.ended_ms != 0 || coin()) continue;
      a.ended_ms = big();
      a.end_index = big();
      a.reason = word();
      rows.emplace_back(
          core::EndAttempt{s.insert.row.seq, a.choice, a.fence, a.ended_ms, a.end_index, a.reason});
    }
  }
  core::RowChange put_model() {
    core::ModelRow r;
    r.name = "m" + std::to_string(draw(0, 5));
    r.sha = word();
    r.path = word();
    r.size = big();
    r.mtime_ns = big();
    r.architecture = word();
    r.context = big();
    r.slots = i32();
    r.pages = i32();
    r.prefill_chunk = big();
    r.kv_type = word();
    r.vocab = i32();
    r.chat = coin();
    r.output = coin() ? "hermes+think" : "";
    r.weights_bytes = big();
    r.kv_bytes = big();
    r.scratch_bytes = big();
    r.options = word();
    r.shape = word();
    r.load_requested = coin();
    r.state = static_cast<core::ModelState>(draw(0, 7));
    r.reason = word();
    r.created_ms = big();
    r.last_used_ms = big();
    r.tokenizer_sha = word();
    r.profile = word();
    models[r.name] = r;
    return core::PutModel{r};
  }
  core::RowChange put_load() {
    const std::string id = "l" + std::to_string(draw(0, 7));
    const auto existing = loads.find(id);
    core::LoadRow r = existing == loads.end() ? core::LoadRow() : existing->second;
    if (existing == loads.end()) {
      r.load_id = id;
      r.model = word();
      r.model_sha = word();
      r.worker_key = word();
      r.created_ms = big();
    }
    r.incarnation = word();
    r.state = static_cast<core::ModelState>(draw(0, 7));
    r.numerics_class = word();
    r.slots = i32();
    r.pages = i32();
    r.page_tokens = i32();
    r.context = big();
    r.bytes = coin() ? big() : 0;
    r.reason = word();
    r.ready_ms = big();
    r.ended_ms = draw(0, 2) == 0 ? big() : 0;
    loads[id] = r;
    return core::PutLoad{r};
  }
  core::RowChange put_flag() {
    const char* names[] = {"pin/a",         "pin/b",        "drain/w1",
                           "quarantine/w2", "queue.paused", "golden/sha/class"};
    const std::string name = names[draw(0, 5)];
    const bool says_more = name.starts_with("quar") || name.starts_with("golden");
    flags[name] = coin() ? (says_more ? word() : "1") : "0";
    return core::PutFlag{name, flags[name]};
  }
  core::RowChange put_blobs() {
    const std::string sha = "s" + std::to_string(draw(0, 3));
    blobs[sha] = {bytes(), bytes()};
    return core::PutModelBlobs{sha, blobs[sha].tokenizer, blobs[sha].detokenizer};
  }

  std::vector<core::RowChange> group() {
    std::vector<core::RowChange> rows;
    for (std::int64_t i = draw(1, 8); i > 0; --i) {
      const std::int64_t kind = requests.empty() ? 0 : draw(0, 12);
      if (kind <= 1) rows.push_back(insert_request());
      if (kind == 2 || kind == 3) rows.push_back(update_request());
      if (kind >= 4 && kind <= 6) add_tokens(rows);
      if (kind == 7) rows.push_back(begin_attempt());
      if (kind == 8) end_attempt(rows);
      if (kind == 9) rows.push_back(put_model());
      if (kind == 10) rows.push_back(put_load());
      if (kind == 11) rows.push_back(put_flag());
      if (kind == 12) {
        if (coin()) {
          rows.push_back(put_blobs());
        } else if (coin()) {
          models.erase("m0");
          rows.emplace_back(core::DeleteModel{"m0"});
        } else {
          const core::Seq seq = any().insert.row.seq;
          requests.erase(seq);
          rows.emplace_back(core::DeleteRequest{seq});
        }
      }
    }
    return rows;
  }
};

// ---- comparing

void expect_same(const Stored& s, const core::BootRequest& r, bool live) {
  const core::InsertRequest& in = s.insert;
  EXPECT_EQ(row_text(r.row), row_text(in.row));
  EXPECT_EQ(r.damaged, "");
  EXPECT_EQ(text_of(r.sampling), text_of(in.payload.sampling));
  EXPECT_EQ(r.stops, in.payload.stops);
  EXPECT_EQ(r.echo, in.payload.echo);
  EXPECT_EQ(r.meta, in.payload.meta);
  ASSERT_EQ(r.choices.size(), in.choices.size());
  ASSERT_EQ(r.prompt_tokens.size(), in.payload.prompt_ids.size());
  for (std::size_t p = 0; p < r.prompt_tokens.size(); ++p) {
    EXPECT_EQ(r.prompt_tokens[p], static_cast<std::int64_t>(in.payload.prompt_ids[p].size()));
  }
  for (std::size_t c = 0; c < r.choices.size(); ++c) {
    EXPECT_EQ(row_text(r.choices[c].row), row_text(in.choices[c]));
    const bool open = live && in.choices[c].finish == core::FinishReason::kNone;
    EXPECT_EQ(r.choices[c].ids, open ? s.ids[c] : std::vector<core::TokenId>{});
    const Store::Attempt* attempt = nullptr;
    for (const Store::Attempt& a : s.attempts) {
      if (a.choice == static_cast<std::int32_t>(c) && a.ended_ms == 0) attempt = &a;
    }
    if (!live || in.row.started_ms == 0) attempt = nullptr;
    ASSERT_EQ(r.choices[c].has_attempt, attempt != nullptr);
    if (attempt == nullptr) continue;
    EXPECT_EQ(r.choices[c].fence, attempt->fence);
    EXPECT_EQ(r.choices[c].worker_key, attempt->worker_key);
    EXPECT_EQ(r.choices[c].incarnation, attempt->incarnation);
    EXPECT_EQ(r.choices[c].load_id, attempt->load_id);
  }
}

void expect_single_reads(Store& store, const Stored& s) {
  const core::InsertRequest& in = s.insert;
  const core::Seq seq = in.row.seq;
  const bool live = !wire::is_terminal(in.row.state);
  const auto by_id = store.find_by_id(in.row.id).value();
  ASSERT_TRUE(by_id.has_value());
  expect_same(s, *by_id, live);
  if (!in.row.idem_key.empty()) {
    const auto by_key = store.find_by_key(in.row.tenant, in.row.idem_key).value();
    ASSERT_TRUE(by_key.has_value());
    EXPECT_EQ(by_key->row.seq, seq);
  }
  for (std::size_t p = 0; p < in.payload.prompt_ids.size(); ++p) {
    EXPECT_EQ(store.prompt_ids(seq, static_cast<std::int32_t>(p)).value(),
              in.payload.prompt_ids[p]);
  }
  EXPECT_EQ(store.prompt_text(seq).value(), in.payload.prompt_text);
  const auto attempts = store.attempts(seq).value();
  ASSERT_EQ(attempts.size(), s.attempts.size());
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    EXPECT_EQ(text_of(attempts[i]), text_of(s.attempts[i]));
  }
  for (std::size_t c = 0; c < s.ids.size(); ++c) {
    const auto end = static_cast<std::int64_t>(s.ids[c].size());
    const domain::TokenRun span = store.tokens(seq, static_cast<std::int32_t>(c), 0, end).value();
    EXPECT_EQ(span.ids, s.ids[c]);
    std::vector<std::string> extra = s.extra[c];
    if (std::all_of(extra.begin(), extra.end(), [](const auto& e) { return e.empty(); })) {
      extra.clear();
    }
    EXPECT_EQ(span.extra, extra);
  }
}

void expect_lists(Store& store, const Mirror& mirror) {
  std::vector<std::string> all, running;
  for (auto it = mirror.requests.rbegin(); it != mirror.requests.rend(); ++it) {
    const core::RequestRow& row = it->second.insert.row;
    all.push_back(row_text(row));
    if (row.state == RequestState::kRunning) running.push_back(row_text(row));
  }
  const auto texts = [&](const std::string& state, std::int64_t limit) {
    std::vector<std::string> out;
    const auto page = store.list_requests({.state = state, .limit = limit}).value();
    for (const core::RequestRow& row : page.rows) out.push_back(row_text(row));
    return out;
  };
  EXPECT_EQ(texts("", 1'000'000), all);
  EXPECT_EQ(texts("running", 1'000'000), running);
  all.resize(std::min<std::size_t>(all.size(), 3));
  EXPECT_EQ(texts("", 3), all);
  const auto sweep = store.oldest(0, 1'000'000).value();
  ASSERT_EQ(sweep.rows.size(), mirror.requests.size());
  std::size_t i = 0;
  for (const auto& [seq, stored] : mirror.requests) {
    EXPECT_EQ(sweep.rows[i].seq, seq);
    EXPECT_EQ(sweep.rows[i++].finished_ms, stored.insert.row.finished_ms);
  }
  for (const auto& [sha, blobs] : mirror.blobs) {
    EXPECT_EQ(store.model_blobs(sha)->tokenizer, blobs.tokenizer);
    EXPECT_EQ(store.model_blobs(sha)->detokenizer, blobs.detokenizer);
  }
}

void expect_boot(Store& store, const Mirror& mirror) {
  const core::Boot boot = store.load().value();
  EXPECT_EQ(boot.last_seq, mirror.requests.empty() ? 0 : mirror.requests.rbegin()->first);
  std::size_t live = 0;
  for (const auto& [seq, stored] : mirror.requests) {
    if (wire::is_terminal(stored.insert.row.state)) continue;
    ASSERT_LT(live, boot.requests.size());
    expect_same(stored, boot.requests[live++], true);
  }
  EXPECT_EQ(boot.requests.size(), live);
  EXPECT_EQ(boot.unread, 0);
  ASSERT_EQ(boot.models.size(), mirror.models.size());
  std::size_t i = 0;
  for (const auto& [name, row] : mirror.models)
    EXPECT_EQ(row_text(boot.models[i++]), row_text(row));
  std::vector<std::string> loads, expected;
  for (const core::LoadRow& row : boot.loads) loads.push_back(row_text(row));
  for (const auto& [id, row] : mirror.loads) {
    if (row.ended_ms == 0 || row.bytes > 0) expected.push_back(row_text(row));
  }
  EXPECT_EQ(loads, expected);
  const auto flag = [&](const std::string& name) {
    const auto it = mirror.flags.find(name);
    return it == mirror.flags.end() || it->second == "0" ? std::string() : it->second;
  };
  std::vector<std::string> pinned;
  for (const char* name : {"a", "b"}) {
    if (!flag("pin/" + std::string(name)).empty()) pinned.emplace_back(name);
  }
  EXPECT_EQ(boot.pinned_models, pinned);
  EXPECT_EQ(boot.drained_workers.size(), flag("drain/w1").empty() ? 0u : 1u);
  EXPECT_EQ(boot.queue_paused, !flag("queue.paused").empty());
  const auto golden = boot.goldens.find("sha/class");
  EXPECT_EQ(golden == boot.goldens.end() ? "" : golden->second, flag("golden/sha/class"));
  const auto bad = boot.quarantined_workers.find("w2");
  EXPECT_EQ(bad == boot.quarantined_workers.end() ? "" : bad->second, flag("quarantine/w2"));
}

TEST(Mirror, Rows_WhenTheStoreIsReopened_EqualTheMirror) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const TempState state(true);
    auto store = open_store(state.dir());
    Mirror mirror(seed);
    for (int round = 0; round < 4; ++round) {
      for (int group = 0; group < 25; ++group) commit(*store, mirror.group());
      for (const auto& [seq, stored] : mirror.requests) expect_single_reads(*store, stored);
      expect_lists(*store, mirror);
      store.reset();
      store = open_store(state.dir());
      expect_boot(*store, mirror);
      for (const auto& [seq, stored] : mirror.requests) expect_single_reads(*store, stored);
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_FALSE(store->find_by_key("nobody", "nothing").value().has_value());
    EXPECT_EQ(store->model_blobs("nothing")->tokenizer, "");
  }
}

TEST(Mirror, Transition_WhenWritten_IsStoredAsGiven) {
  const TempState state;
  {
    auto store = open_store(state.dir());
    commit(*store, {core::InsertTransition{"load", "l1", "placing", "loading", 5, 6, 7, "why"}});
  }
  EXPECT_EQ(read_sql(state.db(),
                     "SELECT subject||'|'||key||'|'||from_state||'|'||to_state||'|'||at_ms||'|'||"
                     "memory_before||'|'||memory_after||'|'||reason FROM transitions"),
            "load|l1|placing|loading|5|6|7|why");
}

}  // namespace
}  // namespace holdfast::store::mirror_test
