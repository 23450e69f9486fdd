// Goal: a model folder is registered through the confined reader, served, and survives a killed
// worker like a GGUF file, with the same text; a folder that was changed since is not loaded.
// Method: the demo model as a folder, and a random one with experts as a folder and as a file, both
// served by one server; then one more byte in the folder's config.

#include <gtest/gtest.h>

#include <fstream>

#include "tests/process/test_server.h"

namespace holdfast::process::folder_test {
namespace {

void expect_served_like_its_file(const TempDir& dir, const std::string& model) {
  const std::string folder = dir.path() + "/model";
  const std::string file = dir.path() + "/model.gguf";
  ASSERT_EQ(run_program({"holdfast", "convert", model, folder}).code, 0);
  ASSERT_EQ(run_program({"holdfast", "convert", folder, file}).code, 0);
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(
      server.start({"--model", "folder=" + folder, "--model", "file=" + file, "--context", "256"}))
      << server.errors();
  const auto client = server.client();
  wire::Submit submit = make_submit("ROMEO:", 60, 7);
  submit.model = "file";
  const StreamResult of_file = submit_and_stream(*client, submit);
  ASSERT_EQ(of_file.failure, "");
  ASSERT_EQ(of_file.ids.size(), 60u);
  submit = make_submit("ROMEO:", 60, 7);
  submit.model = "folder";
  const StreamResult of_folder = submit_and_stream(*client, submit);
  ASSERT_EQ(of_folder.failure, "");
  EXPECT_EQ(of_folder.ids, of_file.ids);
  EXPECT_EQ(of_folder.text, of_file.text);
  std::ofstream(folder + "/config.json", std::ios::app) << " ";
  ASSERT_TRUE(server.kill_child("worker-0"));
  submit = make_submit("ROMEO:", 10, 7);
  submit.model = "folder";
  const StreamResult changed = submit_and_stream(*client, submit);
  EXPECT_TRUE(changed.ids.empty()) << changed.text;
}

TEST(Folder, ModelFolder_WhenServed_GivesTheTextOfItsGguf) {
  const TempDir dir;
  expect_served_like_its_file(dir, demo_model());
}

TEST(Folder, MoeModelFolder_WhenServed_GivesTheTextOfItsGguf) {
  const TempDir dir;
  const std::string model = dir.path() + "/experts.gguf";
  ASSERT_EQ(run_program({"holdfast", "synth", "--arch", "mixtral", model, "--seed", "2", "--type",
                         "bf16", "--rope", "none"})
                .code,
            0);
  expect_served_like_its_file(dir, model);
}

}  // namespace
}  // namespace holdfast::process::folder_test
