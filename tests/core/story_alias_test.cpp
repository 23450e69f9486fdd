// Goal: aliases and canaries to the last field, as story_test.cpp has it for requests; and the
// tables of all knobs, which operators' scripts rely on.
#include "control/core/config.h"
#include "tests/core/story.h"

namespace holdfast::core::story_alias_test {
namespace {

struct AliasStory : Story {
  static Config config() {
    Config c;
    c.canary_window_ms = 1000;
    c.canary_min_requests = 2;
    return c;
  }
  AliasStory() : Story(config()) {}

  void models() {
    tell("two models on a worker");
    bench.boot();
    bench.connect_worker(kW1, "w1");
    bench.add_model(1024, 4, 64, true, "a");
    bench.make_ready(kW1);
    bench.add_model(1024, 2, 32, true, "c");
    bench.make_ready(kW1, "class-c", 2, 32);
  }
  void point(AliasTargets targets, bool wait = false) {
    OpAlias op;
    op.peer = kOperator;
    op.tag = 6;
    op.name = "chat";
    op.who = "ann";
    op.targets = std::move(targets);
    op.when_ready = wait;
    bench.step(op);
  }
  void canary(const std::string& model, std::int64_t percent,
              OpCanary::End end = OpCanary::End::kNone) {
    OpCanary op;
    op.peer = kOperator;
    op.tag = 7;
    op.name = "chat";
    op.who = "bob";
    op.model = model;
    op.end = end;
    op.settings = nothing_said();
    op.settings.percent = percent;
    bench.step(op);
  }
  /// Submits a request to the alias. Returns the dispatch, which says where it went.
  wire::Dispatch ask(const std::string& id) {
    wire::Submit submit = bench.submission(id, 3);
    submit.model = "chat";
    bench.submit(submit);
    return bench.dispatch();
  }
  void serve(int from, int count, bool canary_fails) {
    for (int i = from; i < from + count; ++i) {
      const std::string id = "s" + std::to_string(i);
      const wire::Dispatch d = ask(id);
      bench.advance_ms(20);
      if (canary_fails && d.model_sha == "sha-c") {
        fail(kW1, d, "numerics_nan");
      } else {
        bench.tokens(kW1, d, 0, {1});
        bench.advance_ms(30);
        bench.tokens(kW1, d, 1, {2}, FinishReason::kStop);
      }
    }
  }
};

TEST_F(AliasStory, Alias_WhenCreatedSharedAndSwitched_MatchesTheStory) {
  models();
  tell("made, asked for, shared by weight");
  point({{"a", 1}});
  bench.tokens(kW1, ask("r1"), 0, {1}, FinishReason::kStop);
  point({{"a", 3}, {"c", 1}});
  serve(1, 4, false);
  tell("turned while a request of the old target runs; it ends where it began");
  point({{"a", 1}});
  const wire::Dispatch d = ask("r2");
  point({{"c", 1}});
  bench.tokens(kW1, d, 0, {1}, FinishReason::kStop);
  bench.tokens(kW1, ask("r3"), 0, {1}, FinishReason::kStop);
  tell("to what is not there; taken away");
  point({{"nobody", 1}});
  point({});
  point({});
}

TEST_F(AliasStory, Alias_WhileItWaitsForItsModel_MatchesTheStory) {
  models();
  bench.add_model(1024, 2, 32, false, "d");
  point({{"a", 1}});
  tell("turned to a model that must be loaded first: the old one serves meanwhile");
  point({{"d", 1}}, true);
  const std::vector<Outgoing> load = bench.sent;
  bench.tokens(kW1, ask("r1"), 0, {1}, FinishReason::kStop);
  bench.sent = load;
  bench.make_ready(kW1, "class-d", 2, 32);
  bench.tokens(kW1, ask("r2"), 0, {1}, FinishReason::kStop);
  tell("once more, to one that never comes");
  bench.add_model(1024, 2, 1 << 20, false, "e", 1LL << 50);
  point({{"e", 1}}, true);
  bench.advance_ms(700'000);
}

TEST_F(AliasStory, Canary_WhenItFails_MatchesTheStory) {
  models();
  point({{"a", 1}});
  tell("half of the work to a canary");
  canary("c", 50);
  serve(1, 12, false);
  bench.advance_ms(1001);
  tell("more than their slots: how much waits is in the window's row");
  std::vector<wire::Dispatch> running;
  for (int i = 0; i < 20; ++i) {
    wire::Submit submit = bench.submission("q" + std::to_string(i), 3);
    submit.model = "chat";
    bench.submit(submit);
    for (const wire::Dispatch& d : bench.dispatches()) running.push_back(d);
  }
  bench.advance_ms(700);
  for (std::size_t i = 0; i < running.size(); ++i) {
    bench.tokens(kW1, running[i], 0, {1, 2, 3}, FinishReason::kLength);
    for (const wire::Dispatch& d : bench.dispatches()) running.push_back(d);
  }
  bench.advance_ms(301);
  tell("it begins to fail");
  serve(20, 16, true);
  bench.advance_ms(1001);
  bench.advance_ms(1001);
}

TEST_F(AliasStory, Canary_WhenAnOperatorEndsIt_MatchesTheStory) {
  models();
  point({{"a", 1}});
  canary("c", 40);
  tell("while one is there, nothing else may be said of the alias");
  point({{"c", 1}});
  canary("a", 10);
  tell("its share changes");
  canary("c", 60);
  serve(1, 4, false);
  tell("promoted");
  canary("", 0, OpCanary::End::kPromote);
  serve(10, 2, false);
  tell("another one, taken back; and one that is not there");
  canary("a", 50);
  serve(20, 3, false);
  canary("", 0, OpCanary::End::kRollBack);
  canary("", 0, OpCanary::End::kRollBack);
}

TEST_F(AliasStory, KnobTables_MatchTheStory) {
  const auto write_knob = [&](const std::string& name, const Knob& knob, const std::string& is) {
    write(name + " = " + (is.empty() ? "\"\"" : is) + ", " + std::to_string(knob.min) + " to " +
          std::to_string(knob.max) + " " + std::string(knob.unit) +
          (knob.restart ? ", at a restart" : ""));
  };
  const Config config;
  for (const Knob& knob : knobs()) {
    write_knob(std::string(knob.name), knob, to_text(NamedKnob(knob).value(config)));
  }
  for (const SubjectKind& kind : subject_kinds()) {
    tell(std::string(kind.prefix));
    for (const Knob& knob : kind.knobs) write_knob(std::string(knob.name), knob, "unset");
  }
}

}  // namespace
}  // namespace holdfast::core::story_alias_test
