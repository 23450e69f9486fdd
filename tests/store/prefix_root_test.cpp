// Goal: the root of a sharing group's pages is the same for the same group under the same secret,
// and reveals nothing without the secret. Method: the function alone, over secrets and scopes.
#include "control/daemon/prefix_root.h"

#include <gtest/gtest.h>

#include <set>

namespace holdfast::daemon::prefix_root_test {
namespace {

TEST(PrefixRoot, Root_WhenSecretAndScopeAreTheSame_IsTheSame) {
  const std::string secret(32, 's');
  EXPECT_EQ(prefix_root(secret, "class\nsha\ntenant a"),
            prefix_root(secret, "class\nsha\ntenant a"));
  EXPECT_EQ(prefix_root(secret, "").size(), 16u);
}

TEST(PrefixRoot, Root_WhenAnythingDiffers_IsAnother) {
  std::set<std::string> roots;
  int n = 0;
  for (const char secret : {'s', 't'}) {
    for (const char* numerics : {"avx2", "amx"}) {
      for (const char* model : {"1", "2"}) {
        for (const char* group : {"tenant a", "tenant b", "group a", "tenant "}) {
          ++n;
          roots.insert(prefix_root(std::string(32, secret),
                                   std::string(numerics) + "\n" + model + "\n" + group));
        }
      }
    }
  }
  EXPECT_EQ(static_cast<int>(roots.size()), n);
}

TEST(PrefixRootDeathTest, Root_WhenThereIsNoSecret_Dies) {
  EXPECT_DEATH((void)prefix_root("", "scope"), "CHECK failed");
}

}  // namespace
}  // namespace holdfast::daemon::prefix_root_test
