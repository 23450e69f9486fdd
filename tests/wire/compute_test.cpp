// Goal: a device that fails in a step ends its worker, and fails no request.
// Method: the compute threads over an engine whose device is gone, in a process of their own.

#include "worker/link/compute.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "shared/base/progress.h"

namespace holdfast::worker::compute_test {
namespace {

/// Takes one sequence, and has lost its device at the next step.
class LostDevice final : public engine::Engine {
 public:
  Result<void> add(engine::SequenceSpec spec) override {
    produced_.resize(1);
    produced_[0].key = spec.key;
    produced_[0].finish = wire::FinishReason::kError;
    produced_[0].error = Error{Errc::kModelFailed, "forward on a device: it is gone"};
    return {};
  }
  void cancel(engine::SequenceKey) override {}
  void pause(engine::SequenceKey, bool) override {}
  const std::vector<engine::Produced>& step() override { return produced_; }
  bool idle() const override { return produced_.empty(); }
  engine::Usage usage() const override { return {}; }
  wire::LoadedModel describe() const override { return {}; }

 private:
  std::vector<engine::Produced> produced_;
};

void work_until_the_end() {
  const wire::WakeUp wake;
  Compute compute(
      [](const wire::Load&, const Progress&) -> Result<std::unique_ptr<engine::Engine>> {
        return std::unique_ptr<engine::Engine>(std::make_unique<LostDevice>());
      },
      wake);
  wire::Load load;
  load.load_id = "l1";
  compute.load(load);
  for (int i = 0; i < 500; ++i) {  // 5 s at most: then the exit status fails the test
    for (const ComputeEvent& event : compute.take_events()) {
      if (const auto* changed = std::get_if<LoadChanged>(&event);
          changed != nullptr && changed->model.state == "ready") {
        std::vector<Order> orders(1);
        orders[0].load_id = "l1";
        orders[0].key = 1;
        orders[0].spec.key = 1;
        compute.order(std::move(orders));
      }
      if (std::holds_alternative<ProducedBatch>(event)) _exit(3);  // output was reported
    }
    usleep(10'000);
  }
  _exit(4);
}

TEST(Compute, Worker_WhenDeviceFails_ExitsWithoutFailingRequests) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(work_until_the_end(), testing::ExitedWithCode(kExitDeviceFailed),
              "the device failed");
}

}  // namespace
}  // namespace holdfast::worker::compute_test
