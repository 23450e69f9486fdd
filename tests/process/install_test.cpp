// Goal: what `cmake --install` puts under a prefix is whole: its program finds the others, serves a
// model, and has its pages, completion scripts and unit file.
// Method: an installation into a temporary prefix, and the installed program alone.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "shared/base/version.h"
#include "tests/process/test_server.h"

namespace holdfast::process::install_test {
namespace {

namespace fs = std::filesystem;

TEST(Install, InstalledPrefix_WithoutTheBuild_ServesAModelAndHasItsPages) {
  const TempDir dir;
  const std::string prefix = dir.path() + "/prefix";
  const Ended installed = run_program({"/usr/bin/env", "cmake", "--install", HOLDFAST_BUILD_DIR,
                                       "--prefix", prefix, "--component", "runtime", "--strip"});
  ASSERT_EQ(installed.code, 0) << installed.out << installed.err;
  for (const char* path :
       {"bin/holdfast", "libexec/holdfast/holdfastd", "libexec/holdfast/holdfast-worker",
        "libexec/holdfast/holdfast-gateway", "libexec/holdfast/holdfast-ingress",
        "share/man/man1/holdfast.1", "share/man/man1/holdfast-models-add.1",
        "share/bash-completion/completions/holdfast", "share/zsh/vendor-completions/_holdfast",
        "lib/systemd/system/holdfast.service", "lib/systemd/system/holdfast-node.service",
        "share/holdfast/grafana/holdfast.json"}) {
    EXPECT_TRUE(fs::exists(prefix + "/" + path)) << path;
  }
  EXPECT_FALSE(fs::exists(prefix + "/bin/holdfastd"));
  for (const auto& [unit, verb] : {std::pair{"holdfast", "serve"}, {"holdfast-node", "node"}}) {
    const std::string text = read_file(prefix + "/lib/systemd/system/" + unit + ".service");
    EXPECT_NE(text.find("ExecStart=" + prefix + "/bin/holdfast " + verb), std::string::npos)
        << text;
    EXPECT_EQ(text.find("useradd"), std::string::npos) << "the package makes the user";
  }
  EXPECT_NE(read_file(prefix + "/share/man/man1/holdfast-models-add.1").find(".SH SYNOPSIS"),
            std::string::npos);

  const std::string program = prefix + "/bin/holdfast";
  const Ended version = run_program({program, "--version"});
  EXPECT_NE(version.out.find(kVersion), std::string::npos) << version.out;
  const Ended answer =
      run_program({program, "run", prefix + "/share/holdfast/demo/holdfast-demo-Q8_0.gguf",
                   "To be, or not", "--max-tokens", "8", "--seed", "1"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_FALSE(answer.out.empty());
}

}  // namespace
}  // namespace holdfast::process::install_test
