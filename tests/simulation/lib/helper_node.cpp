#include "tests/simulation/lib/helper_node.h"

#include "tests/simulation/lib/sim_request.h"

namespace holdfast::simulation {

std::vector<wire::TokenId> ids_of_text(const std::string& text) {
  std::vector<wire::TokenId> ids;
  for (const char c : text) ids.push_back(1000 + static_cast<unsigned char>(c));
  return ids;
}

void HelperNode::start() {
  if (alive_) return;
  alive_ = true;
  ++life_;
  network_.connect(this, Role::kIngress);
}

void HelperNode::die() {
  if (!alive_) return;
  alive_ = false;
  ++life_;
  network_.cut(connection_, world_.random.between(0, 100) * kMs, -1);
  connection_ = 0;
  world_.after(world_.random.between(20, 500) * kMs, [this] { start(); });
}

void HelperNode::on_connected(PeerId connection) {
  if (!alive_) return network_.cut(connection, 0, -1);
  connection_ = connection;
  network_.send_to_daemon(connection, wire::IngressHello{1});
}

void HelperNode::on_lost(PeerId connection) {
  if (connection != connection_ || !alive_) return;
  connection_ = 0;
  network_.connect(this, Role::kIngress);
}

void HelperNode::on_message(PeerId connection, wire::Message& message) {
  if (connection != connection_ || !alive_) return;
  wire::Message answer;
  if (const auto* prepare = std::get_if<wire::Prepare>(&message)) {
    wire::Prepared prepared;
    prepared.job = prepare->job;
    prepared.ok = true;
    for (const wire::Prompt& prompt : prepare->prompts) {
      prepared.ids.push_back(prompt.text ? ids_of_text(*prompt.text) : *prompt.ids);
    }
    answer = std::move(prepared);
  } else if (const auto* inspect = std::get_if<wire::Inspect>(&message)) {
    wire::Inspected inspected;
    inspected.job = inspect->job;
    inspected.ok = true;
    inspected.model_sha = "sha-" + inspect->path;
    inspected.size = 1;
    answer = std::move(inspected);
  } else {
    return;
  }
  const std::uint64_t life = life_;
  world_.after(world_.random.between(1, 50) * kMs, [this, life, connection, answer] {
    if (life == life_) network_.send_to_daemon(connection, answer);
  });
}

}  // namespace holdfast::simulation
