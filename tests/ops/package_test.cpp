// Goal: the packages that ops/package makes do for their users what docs/use/install.md says: apt
// installs the Debian packages and a purge leaves nothing (with HOLDFAST_TEST_FULL=1 on a bare
// Debian 12, where an upgrade under load costs nobody a token), the tarball runs from any folder
// with the libraries that it brings, the image runs from its unpacked root, read-only and without
// rights; lintian finds nothing. Method: the packages of this build, tried by ops/packaging/try in
// namespaces of their own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "shared/base/version.h"
#include "tests/ops/run_command.h"

namespace holdfast::package_test {
namespace {

namespace fs = std::filesystem;

int run(const std::string& command) {
  return ops::run_command(command).status;
}

bool has(const std::string& program) {
  return run("command -v " + program + " >/dev/null 2>&1") == 0;
}

class Package : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* program : {"dh", "lintian", "fakeroot", "patchelf", "umoci"}) {
      if (!has(program)) {
        GTEST_SKIP() << "no " << program << " here: ops/test installs ops/packaging/packages.txt";
      }
    }
    std::string name = (fs::temp_directory_path() / "hf-packages-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    out_ = name;
  }
  void TearDown() override {
    if (!out_.empty()) fs::remove_all(out_);
  }
  std::string script(const std::string& name) const {
    return std::string(HOLDFAST_SOURCE_DIR) + "/ops/" + name;
  }
  std::string out_;
};

TEST_F(Package, Packages_OfThisBuild_InstallServeAndGoWithoutATrace) {
  ASSERT_EQ(run(script("package") +
                " deb tar oci --without-symbols --build " HOLDFAST_BUILD_DIR " --out " + out_),
            0);
  for (const char* name :
       {"holdfast_VERSION_amd64.deb", "holdfast-doc_VERSION_all.deb",
        "libholdfast-dev_VERSION_amd64.deb", "libholdfast0_VERSION_amd64.deb", "SHA256SUMS"}) {
    std::string file = name;
    if (const auto at = file.find("VERSION"); at != std::string::npos) {
      file.replace(at, std::string("VERSION").size(), kVersion);
    }
    EXPECT_TRUE(fs::exists(out_ + "/" + file)) << file;
  }
  EXPECT_EQ(run("cd " + out_ + " && sha256sum --quiet -c SHA256SUMS"), 0);
  if (geteuid() != 0 || run("unshare --mount --pid --net --fork true 2>/dev/null") != 0) {
    GTEST_SKIP() << "the packages were made; trying them wants root and namespaces";
  }
  // A bare Debian 12 is made from Debian's archive, which takes minutes and a network: with
  // HOLDFAST_TEST_FULL=1. Else the packages are tried on this machine's root.
  std::string command = script("packaging/try") + " " + out_;
  if (std::getenv("HOLDFAST_TEST_FULL") == nullptr) {
    command += " --here";
  } else {
    command +=
        " --cache " HOLDFAST_BUILD_DIR
        "/bare-debian-12"
        " --newer " HOLDFAST_BUILD_DIR "/tests/newer-kernels/holdfast-worker " HOLDFAST_BUILD_DIR
        "/tests/newer-schema/holdfastd";
  }
  EXPECT_EQ(run(command), 0);
}

}  // namespace
}  // namespace holdfast::package_test
