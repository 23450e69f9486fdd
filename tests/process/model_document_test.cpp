// Goal: scripts that read `models show --json` find the members that they found before. Method: the
// names are compared one by one with those of a served model; a member may be added here, never
// renamed.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/process/test_server.h"

namespace holdfast::process::model_document_test {
namespace {

using nlohmann::json;

std::set<std::string> members_of(const json& object) {
  std::set<std::string> out;
  for (const auto& [name, value] : object.items()) out.insert(name);
  return out;
}

TEST(ModelDocument, ModelsShow_WithALoadedModel_HasItsMembers) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start({"--model", "demo=" + demo_model(), "--engine", "fake"}))
      << server.errors();
  const json document = json::parse(server.cli({"--json", "models", "show", "demo"}).out);
  const std::set<std::string> model = {
      "name",  "state",    "reason",        "breaker",  "architecture", "context",
      "slots", "pages",    "kv_type",       "vocab",    "chat",         "output",
      "makes", "sha",      "weights_bytes", "kv_bytes", "size_bytes",   "scratch_bytes",
      "path",  "wanted",   "pinned",        "failures", "created_ms",   "last_used_ms",
      "loads", "progress", "devices",       "options"};
  EXPECT_EQ(members_of(document), model);
  const std::set<std::string> load = {"load_id",  "worker",         "connected",   "state",
                                      "class",    "slots",          "pages",       "pages_used",
                                      "running",  "reserved_bytes", "placed",      "weights_bytes",
                                      "kv_bytes", "scratch_bytes",  "taken_bytes", "drift_percent",
                                      "drifts",   "progress",       "reason"};
  ASSERT_EQ(document.at("loads").size(), 1u) << document.dump(1);
  EXPECT_EQ(members_of(document["loads"][0]), load);
  const std::set<std::string> device = {"worker",          "device",     "verdict",
                                        "needed_bytes",    "free_bytes", "may_give_bytes",
                                        "largest_context", "why"};
  ASSERT_FALSE(document.at("devices").empty()) << document.dump(1);
  EXPECT_EQ(members_of(document["devices"][0]), device);
}

}  // namespace
}  // namespace holdfast::process::model_document_test
