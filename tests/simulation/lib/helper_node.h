#pragma once
// The ingress helper of a simulation: tokens of a text, numbers of a model file, and it may die.

#include <cstdint>

#include "tests/simulation/lib/network.h"

namespace holdfast::simulation {

class HelperNode final : public Endpoint {
 public:
  HelperNode(World& world, Network& network) : world_(world), network_(network) {}
  void start();
  void die();

  void on_connected(PeerId connection) override;
  void on_lost(PeerId connection) override;
  void on_message(PeerId connection, wire::Message& message) override;

 private:
  World& world_;
  Network& network_;
  bool alive_ = false;
  std::uint64_t life_ = 0;
  PeerId connection_ = 0;
};

}  // namespace holdfast::simulation
