// Goal: the /metrics of a running server are true, well formed and named as Prometheus wants it;
// they agree with `status`; counters only grow; every metric that a rule, the dashboard or the
// documentation names exists; and a stuck daemon is reported, not waited for. Method: `holdfast
// serve` with the demo model under some load, kills and refusals; scrapes are read by a small
// parser here and, where it is installed, by promtool.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::metrics_test {
namespace {

using nlohmann::json;

struct Scrape {
  std::map<std::string, std::string> types;  // by family
  std::set<std::string> helps;
  std::map<std::string, double> samples;  // "name{labels}"
  std::string text;
  std::string error;  // the first line that is not as it should be

  double value(const std::string& sample) const {
    const auto it = samples.find(sample);
    return it == samples.end() ? -1 : it->second;
  }
  /// The family of a sample: a histogram's has three names.
  std::string family(const std::string& sample) const {
    const std::string name = sample.substr(0, sample.find('{'));
    if (types.count(name) > 0) return name;
    for (const char* part : {"_bucket", "_count", "_sum"}) {
      const std::size_t cut = name.rfind(part);
      if (cut != std::string::npos && types.count(name.substr(0, cut)) > 0) {
        return name.substr(0, cut);
      }
    }
    return "";
  }
};

Scrape read_scrape(const std::string& text) {
  Scrape scrape;
  scrape.text = text;
  std::istringstream lines(text);
  const std::regex sample(R"rx(([a-z0-9_]+(?:\{.*\})?) (\S+))rx");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, what, name, rest;
    std::smatch match;
    if (line[0] == '#') {
      words >> hash >> what >> name >> rest;
      if (what == "TYPE" && !scrape.types.emplace(name, rest).second) scrape.error = line;
      if (what == "HELP") scrape.helps.insert(name);
    } else if (!std::regex_match(line, match, sample) ||
               !scrape.samples.emplace(match[1].str(), std::stod(match[2].str())).second ||
               scrape.family(match[1].str()).empty()) {
      scrape.error = line;
    }
    if (!scrape.error.empty()) break;
  }
  return scrape;
}

Scrape scrape_of(const TestServer& server) {
  const HttpAnswer answer = http_exchange(server.url(), http_get_text("/metrics?names=holdfast"));
  EXPECT_EQ(answer.status, 200);
  Scrape scrape = read_scrape(answer.body);
  EXPECT_EQ(scrape.error, "");
  return scrape;
}

json completion(int tokens, bool stream = false) {
  return {{"model", "demo"}, {"prompt", "To be"},  {"max_tokens", tokens},
          {"seed", 1},       {"ignore_eos", true}, {"stream", stream}};
}

HttpAnswer post(const TestServer& server, const json& body, const std::string& key = "") {
  std::vector<std::pair<std::string, std::string>> headers;
  if (!key.empty()) headers.emplace_back("Idempotency-Key", key);
  return http_exchange(server.url(), http_post_text("/v1/completions", body.dump(), headers));
}

void some_load(const TestServer& server) {
  for (int i = 0; i < 3; ++i) ASSERT_EQ(post(server, completion(12)).status, 200);
  ASSERT_EQ(post(server, completion(12, true)).status, 200);
  ASSERT_EQ(post(server, completion(4), "key").status, 200);
  ASSERT_EQ(post(server, completion(4), "key").status, 200);
  json unknown = completion(4);
  unknown["model"] = "nobody";
  ASSERT_EQ(post(server, unknown).status, 404);
}

std::string source(const std::string& path) {
  return read_file(std::string(HOLDFAST_SOURCE_DIR) + "/" + path);
}

/// Every metric of ours named in a text, rule names (with colons) too.
std::set<std::string> names_in(const std::string& text) {
  std::set<std::string> names;
  const std::regex name(R"(\bholdfast[_:][a-z0-9_:]*[a-z0-9])");
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) {
    names.insert(it->str());
  }
  return names;
}

/// The metrics that the rules record.
std::set<std::string> recorded() {
  std::set<std::string> names;
  const std::string text = source("ops/prometheus/recording.yml");
  const std::regex record(R"(record: (\S+))");
  for (std::sregex_iterator it(text.begin(), text.end(), record), end; it != end; ++it) {
    names.insert((*it)[1].str());
  }
  return names;
}

/// promtool, from PATH or where ops/test puts it; empty if there is none.
std::string promtool() {
  const std::string built = std::string(HOLDFAST_BUILD_DIR) + "/tools/promtool";
  if (std::filesystem::exists(built)) return built;
  const Ended found = run_program({"/bin/sh", "-c", "command -v promtool"});
  return found.code == 0 ? found.out.substr(0, found.out.find('\n')) : "";
}

class Metrics : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(server.start({"--model", "demo=" + demo_model()})) << server.errors();
  }
  void TearDown() override {
    if (server.supervisor_pid() > 0) {
      EXPECT_EQ(server.stop(), 0) << server.errors();
    }
  }
  TempDir dir;
  TestServer server{dir.path() + "/state"};
};

TEST_F(Metrics, Metrics_AfterSomeLoad_AgreeWithStatus) {
  some_load(server);
  // The worker reports its counts once a second.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  Scrape scrape = scrape_of(server);
  while (scrape.value("holdfast_worker_generated_tokens_total{worker=\"worker-0\"}") < 52 &&
         std::chrono::steady_clock::now() < until) {
    scrape = scrape_of(server);
  }
  const std::map<std::string, double> expected = {
      {"holdfast_daemon_up", 1},
      {"holdfast_requests_accepted_total", 5},
      {"holdfast_requests_deduplicated_total", 1},
      {"holdfast_requests_refused_total{reason=\"model_not_found\"}", 1},
      {"holdfast_requests_refused_total{reason=\"queue_full\"}", 0},
      {"holdfast_requests_ended_total{model_name=\"demo\",state=\"succeeded\"}", 5},
      {"holdfast_requests_ended_total{model_name=\"demo\",state=\"failed\"}", 0},
      {"holdfast_request_success_total{model_name=\"demo\",finished_reason=\"length\"}", 5},
      {"holdfast_generation_tokens_total{model_name=\"demo\"}", 52},
      {"holdfast_worker_generated_tokens_total{worker=\"worker-0\"}", 52},
      {"holdfast_time_to_first_token_seconds_count{model_name=\"demo\"}", 5},
      {"holdfast_e2e_request_latency_seconds_count{model_name=\"demo\"}", 5},
      {"holdfast_request_queue_time_seconds_count{model_name=\"demo\"}", 5},
      {"holdfast_request_prefill_time_seconds_count{model_name=\"demo\"}", 5},
      {"holdfast_request_decode_time_seconds_count{model_name=\"demo\"}", 5},
      {"holdfast_model_switch_seconds_count", 1},
      {"holdfast_num_requests_running{model_name=\"demo\",priority=\"normal\"}", 0},
      {"holdfast_kv_pages_used{model_name=\"demo\",worker=\"worker-0\"}", 0},
      {"holdfast_model_ready{model_name=\"demo\"}", 1},
      {"holdfast_models{state=\"ready\"}", 1},
      {"holdfast_workers{state=\"ready\"}", 1},
      {"holdfast_problems{level=\"error\"}", 0},
      {"holdfast_process_restarts_total{role=\"worker\",name=\"worker-0\"}", 0},
      {"holdfast_http_requests_total{method=\"POST\",path=\"/v1/completions\",status=\"200\"}", 6},
      {"holdfast_http_requests_total{method=\"POST\",path=\"/v1/completions\",status=\"404\"}", 1},
      {"holdfast_http_streams", 0}};
  for (const auto& [sample, value] : expected) EXPECT_EQ(scrape.value(sample), value) << sample;
  EXPECT_GT(scrape.value("holdfast_prompt_tokens_total{model_name=\"demo\"}"), 0);
  EXPECT_GT(scrape.value("holdfast_wal_bytes"), 0);
  EXPECT_GT(scrape.value("holdfast_commits_total{durability=\"full\"}"), 5);

  const Ended ended = server.cli({"--json", "status"});
  const json status = json::parse(ended.out);
  EXPECT_EQ(status["counters"]["accepted"], 5);
  EXPECT_EQ(status["counters"]["tokens"], 52);
  EXPECT_EQ(status["latency"]["token_gap"]["count"].get<double>(),
            scrape.value("holdfast_inter_token_latency_seconds_count{model_name=\"demo\"}"));
  EXPECT_EQ(status["queue"]["max_requests"].get<double>(),
            scrape.value("holdfast_limit{name=\"queue.max_requests\"}"));
  EXPECT_EQ(status["devices"][0]["reserved_bytes"].get<double>(),
            scrape.value("holdfast_load_memory_bytes{model_name=\"demo\",worker=\"worker-0\","
                         "part=\"reserved\"}"));
}

// In a text of one repeated token draft tokens are accepted. Their number depends on their cost.
TEST_F(Metrics, DraftTokenMetrics_WhenDraftsAreAccepted_CountThem) {
  json body = completion(60);
  body["logit_bias"] = {{"40", 100}};
  ASSERT_EQ(post(server, body).status, 200);
  const auto value = [](const Scrape& scrape, const char* name) {
    return scrape.value("holdfast_worker_" + std::string(name) + "_total{worker=\"worker-0\"}");
  };
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  Scrape scrape = scrape_of(server);
  while (value(scrape, "generated_tokens") < 60 && std::chrono::steady_clock::now() < until) {
    scrape = scrape_of(server);
  }
  EXPECT_GT(value(scrape, "accepted_draft_tokens"), 0);
  EXPECT_LT(value(scrape, "accepted_draft_tokens"), 60);
  EXPECT_GE(value(scrape, "draft_tokens"), value(scrape, "accepted_draft_tokens"));
}

TEST_F(Metrics, Histograms_AfterSomeLoad_AreWellFormed) {
  some_load(server);
  const Scrape scrape = scrape_of(server);
  std::size_t histograms = 0;
  for (const auto& [name, type] : scrape.types) {
    if (type != "histogram") continue;
    ++histograms;
    double before = 0, bound_before = 0, last = -1;
    std::istringstream lines(scrape.text);
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind(name + "_bucket", 0) != 0) continue;
      const std::size_t le = line.find("le=\"") + 4;
      const std::string bound = line.substr(le, line.find('"', le) - le);
      const double count = std::stod(line.substr(line.rfind(' ')));
      EXPECT_GE(count, before) << line;
      if (bound == "+Inf") {
        last = count;
      } else {
        EXPECT_GT(std::stod(bound), bound_before) << line;
        EXPECT_LE(bound.size(), 11u) << "an exact decimal: " << line;
        bound_before = std::stod(bound);
      }
      before = count;
    }
    for (const auto& [sample, value] : scrape.samples) {
      if (sample.rfind(name + "_count", 0) == 0) {
        EXPECT_EQ(value, last) << sample;
      }
    }
  }
  EXPECT_EQ(histograms, 8u);
}

TEST_F(Metrics, Counters_AcrossKills_OnlyGrow) {
  const auto check = [&](const Scrape& before, const Scrape& after, bool worker_died) {
    std::size_t checked = 0;
    for (const auto& [sample, value] : before.samples) {
      const std::string family = before.family(sample);
      const std::string type = before.types.at(family);
      if (type == "gauge") continue;
      const bool of_worker =
          family.rfind("holdfast_worker_", 0) == 0 || family == "holdfast_num_preemptions_total";
      if (of_worker && worker_died) continue;  // begins again with its process
      ++checked;
      EXPECT_GE(after.value(sample), value) << sample;
    }
    EXPECT_GT(checked, 100u);
  };
  some_load(server);
  const Scrape first = scrape_of(server);
  some_load(server);
  const Scrape second = scrape_of(server);
  check(first, second, false);
  // A worker that dies in mid-stream: its work is resumed, and that is counted. A stream that was
  // complete before the kill (on a busy machine) shows nothing: another try.
  Scrape third;
  for (int i = 0; i < 10; ++i) {
    bool killed = false;
    const auto result =
        stream_sse(server.url(), "/v1/completions", completion(400, true).dump(),
                   "long" + std::to_string(i), Resume::kPost, [&](std::int64_t index) {
                     if (index > 20 && !std::exchange(killed, true)) server.kill_child("worker-0");
                   });
    EXPECT_EQ(result.failure, "");
    EXPECT_TRUE(killed);
    third = scrape_of(server);
    if (third.value("holdfast_choices_resumed_total") >= 1) break;
  }
  check(second, third, true);
  EXPECT_GE(third.value("holdfast_choices_resumed_total"), 1);
  EXPECT_GE(third.value("holdfast_tokens_replayed_total"), 20);
  EXPECT_GE(third.value("holdfast_workers_lost_total"), 1);
  // The counts of a removed model stay.
  const std::string tokens = "holdfast_worker_generated_tokens_total{worker=\"worker-0\"}";
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  ASSERT_EQ(post(server, completion(50)).status, 200);
  while (scrape_of(server).value(tokens) < 50) {  // the worker reports its counts once a second
    ASSERT_LT(std::chrono::steady_clock::now(), until);
  }
  ASSERT_EQ(server.cli({"models", "unload", "demo"}).code, 0);
  while (server.cli({"models", "remove", "demo"}).code != 0) {  // conflict while it is loaded
    ASSERT_LT(std::chrono::steady_clock::now(), until);
  }
  const Scrape fourth = scrape_of(server);
  EXPECT_EQ(fourth.value("holdfast_model_ready{model_name=\"demo\"}"), -1);
  check(third, fourth, false);
  // Its worker too retains what it did for it: the counts go on from there.
  ASSERT_EQ(server.cli({"models", "add", "demo", demo_model(), "--load"}).code, 0);
  ASSERT_EQ(post(server, completion(4)).status, 200);
  Scrape fifth = scrape_of(server);
  while (fifth.value(tokens) <= fourth.value(tokens) && std::chrono::steady_clock::now() < until) {
    fifth = scrape_of(server);
  }
  EXPECT_GT(fifth.value(tokens), fourth.value(tokens));
  check(fourth, fifth, false);
}

// A dead worker is still the one that was started so often.
TEST_F(Metrics, RestartMetric_WhileTheWorkerIsDead_RetainsItsName) {
  const std::string restarts = "holdfast_process_restarts_total{role=\"worker\",name=\"worker-0\"}";
  ASSERT_EQ(scrape_of(server).value(restarts), 0);
  for (int died = 0; died < 2; ++died) {
    server.kill_child("worker-0");
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    double now = died;
    for (; now == died; now = scrape_of(server).value(restarts)) {
      ASSERT_LT(std::chrono::steady_clock::now(), until);
    }
    EXPECT_EQ(now, died + 1);
  }
}

TEST_F(Metrics, Metrics_WhenTheDaemonDiesOrHangs_ReportIt) {
  bool killed = false;
  const auto result = stream_sse(server.url(), "/v1/completions", completion(400, true).dump(),
                                 "long", Resume::kPost, [&](std::int64_t index) {
                                   if (index > 20 && !std::exchange(killed, true))
                                     server.kill_child("daemon");
                                 });
  EXPECT_EQ(result.failure, "");
  Scrape scrape = scrape_of(server);
  EXPECT_EQ(scrape.value("holdfast_requests_recovered_total"), 1);
  EXPECT_EQ(scrape.value("holdfast_daemon_epoch"), 2);
  EXPECT_EQ(scrape.value("holdfast_process_restarts_total{role=\"daemon\",name=\"daemon\"}"), 1);

  const pid_t daemon = server.pid_of("daemon");
  kill(daemon, SIGSTOP);
  scrape = scrape_of(server);
  kill(daemon, SIGCONT);
  EXPECT_EQ(scrape.value("holdfast_daemon_up"), 0);
  EXPECT_GE(scrape.value("holdfast_http_connections"), 1);
  EXPECT_EQ(scrape.value("holdfast_requests_accepted_total"), -1);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (scrape_of(server).value("holdfast_daemon_up") != 1 &&
         std::chrono::steady_clock::now() < until) {
  }
  EXPECT_EQ(scrape_of(server).value("holdfast_daemon_up"), 1);
}

TEST_F(Metrics, MetricNames_FollowPrometheusAndAreDocumented) {
  some_load(server);
  const Scrape scrape = scrape_of(server);
  const auto ends = [](const std::string& name, const std::string& end) {
    return name.size() > end.size() && name.substr(name.size() - end.size()) == end;
  };
  for (const auto& [name, type] : scrape.types) {
    EXPECT_EQ(name.rfind("holdfast_", 0), 0u) << name;
    EXPECT_EQ(scrape.helps.count(name), 1u) << name << " has no help";
    EXPECT_EQ(type == "counter", ends(name, "_total")) << name;
    if (type == "histogram") {
      EXPECT_TRUE(ends(name, "_seconds")) << name;
    }
    for (const char* wrong : {"_ms", "_us", "_milliseconds", "_kb", "_mb", "_mib", "_percent"}) {
      EXPECT_FALSE(ends(name, wrong)) << name << ": base units";
    }
  }
  // The page's table has each of them with its type, and nothing else.
  const std::string text = source("docs/run/metrics.md");
  std::map<std::string, std::string> documented;
  const std::regex row(R"(\n\| `(holdfast_[a-z0-9_]+)` \| (\w+) \|)");
  for (std::sregex_iterator it(text.begin(), text.end(), row), end; it != end; ++it) {
    documented[(*it)[1].str()] = (*it)[2].str();
  }
  EXPECT_EQ(documented, scrape.types);
  // Each alert is explained.
  const std::string alerts = source("ops/prometheus/alerts.yml");
  const std::regex alert(R"(- alert: (\w+))");
  std::size_t count = 0;
  for (std::sregex_iterator it(alerts.begin(), alerts.end(), alert), end; it != end; ++it) {
    ++count;
    EXPECT_NE(text.find("| `" + (*it)[1].str() + "` |"), std::string::npos) << (*it)[1].str();
  }
  EXPECT_GT(count, 10u);
}

TEST_F(Metrics, RulesAndDashboard_NameOnlyExistingMetrics) {
  some_load(server);
  const Scrape scrape = scrape_of(server);
  const std::set<std::string> rules = recorded();
  EXPECT_GT(rules.size(), 10u);
  const auto check = [&](const std::string& where, const std::string& query) {
    const std::set<std::string> names = names_in(query);
    EXPECT_TRUE(!names.empty() || query.find("up{job=\"holdfast\"}") != std::string::npos)
        << where << ": no metric of ours in " << query;
    for (const std::string& name : names) {
      EXPECT_TRUE(rules.count(name) > 0 || !scrape.family(name).empty())
          << where << ": there is no " << name << " in\n"
          << query;
    }
  };
  const std::regex expr(R"(\n\s+expr: (>-\n(?:          .*\n)+|.*\n))");
  for (const char* file : {"ops/prometheus/alerts.yml", "ops/prometheus/recording.yml"}) {
    const std::string text = source(file);
    std::size_t queries = 0, expected = 0;
    for (std::sregex_iterator it(text.begin(), text.end(), expr), end; it != end; ++it, ++queries) {
      check(file, (*it)[1].str());
    }
    for (std::size_t at = 0; (at = text.find(" expr:", at + 1)) != std::string::npos;) ++expected;
    EXPECT_EQ(queries, expected) << file << ": an expression was not read";
  }
  const json dashboard = json::parse(source("ops/grafana/holdfast.json"));
  std::size_t queries = 0;
  for (const json& panel : dashboard.at("panels")) {
    if (panel.at("type") == "row") continue;
    EXPECT_FALSE(panel.at("targets").empty()) << panel.at("title");
    for (const json& target : panel.at("targets")) {
      check("dashboard, " + panel.at("title").get<std::string>(), target.at("expr"));
      ++queries;
    }
  }
  for (const json& variable : dashboard.at("templating").at("list")) {
    if (variable.at("type") == "query") check("variable", variable.at("definition"));
  }
  for (const json& mark : dashboard.at("annotations").at("list")) check("mark", mark.at("expr"));
  EXPECT_GT(queries, 40u);
}

/// The sum of the samples of a family of ours, without the labels that vLLM does not have.
double sum_of(const Scrape& scrape, const std::string& name) {
  double sum = 0;
  for (const auto& [sample, value] : scrape.samples) {
    if (sample.starts_with(name + "{")) sum += value;
  }
  return sum;
}

TEST_F(Metrics, VllmNames_AfterSomeLoad_HaveOurNumbers) {
  some_load(server);
  const Scrape ours = scrape_of(server);
  const HttpAnswer all = http_exchange(server.url(), http_get_text("/metrics"));
  const HttpAnswer theirs = http_exchange(server.url(), http_get_text("/metrics?names=vllm"));
  EXPECT_NE(all.body.find("holdfast_generation_tokens_total{"), std::string::npos);
  EXPECT_EQ(theirs.body.find("holdfast_generation_tokens_total{"), std::string::npos);
  const auto line = [](const std::string& name, double value) {
    return "\nvllm:" + name + "{model_name=\"demo\"} " + std::to_string(static_cast<int>(value)) +
           "\n";
  };
  for (const std::string& text : {all.body, theirs.body}) {
    EXPECT_NE(text.find(line("generation_tokens_total",
                             sum_of(ours, "holdfast_generation_tokens_total"))),
              std::string::npos)
        << text;
    EXPECT_NE(text.find(line("num_requests_waiting", 0)), std::string::npos) << text;
    for (const char* name :
         {"num_requests_running", "kv_cache_usage_perc", "prefix_cache_queries_total",
          "prefix_cache_hits_total", "time_to_first_token_seconds_bucket",
          "time_per_output_token_seconds_count", "e2e_request_latency_seconds_sum"}) {
      EXPECT_NE(text.find(std::string("\nvllm:") + name), std::string::npos) << name;
    }
  }
  EXPECT_GT(sum_of(ours, "holdfast_generation_tokens_total"), 0);
}

TEST_F(Metrics, Promtool_WhenCheckingMetricsAndRules_FindsNothing) {
  const std::string tool = promtool();
  if (tool.empty()) {
    GTEST_SKIP() << "no promtool on PATH nor in the build's tools/: ops/test fetches it";
  }
  some_load(server);
  const std::string file = dir.write("scrape.txt", scrape_of(server).text);
  const Ended metrics = run_program({"/bin/sh", "-c", tool + " check metrics < " + file});
  EXPECT_EQ(metrics.code, 0);
  EXPECT_EQ(metrics.out + metrics.err, "");
  const std::string rules = std::string(HOLDFAST_SOURCE_DIR) + "/ops/prometheus/";
  const Ended checked =
      run_program({tool, "check", "rules", rules + "alerts.yml", rules + "recording.yml"});
  EXPECT_EQ(checked.code, 0) << checked.out << checked.err;
  const Ended tested = run_program({tool, "test", "rules", rules + "alerts_test.yml"});
  EXPECT_EQ(tested.code, 0) << tested.out << tested.err;
  // The check can fail.
  const std::string bad = dir.write("bad.txt", "# TYPE a_total gauge\na_total 1\n");
  EXPECT_NE(run_program({"/bin/sh", "-c", tool + " check metrics < " + bad}).code, 0);
}

}  // namespace
}  // namespace holdfast::process::metrics_test
