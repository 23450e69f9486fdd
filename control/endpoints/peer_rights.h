#pragma once
// The rights of peers elsewhere: which messages and verbs a key's role may send to the listener for
// other machines, and for whom.

#include <optional>
#include <string>

#include "shared/client/peer_key.h"
#include "shared/wire/messages.h"

namespace holdfast::daemon {

/// The part of the daemon that takes a message.
enum class Receiver : std::uint8_t { kClients, kWorkers, kOperators, kNodes, kPair };

/// Returns the receiver for a message of a peer with this key; nullopt: its role may not send it.
std::optional<Receiver> receiver_of(client::PeerRole role, const wire::Message& message);

/// Returns why a role may not touch the stored object that a verb names; empty: it may. Keys and
/// webhooks are made and removed at the operator's socket alone; a gateway reads keys of the API
/// and webhooks, and changes the kinds that it works with.
std::string reason_to_refuse_object(client::PeerRole role, const wire::Op& op);

/// Puts the key's identity in place of what the message says of its sender: tenant, key, worker.
/// Returns an empty text, or why the message is refused.
std::string stamp(const client::PeerKey& key, wire::Message& message);

/// Returns a refusal that says who may not send what, as the answer to a message that has one: with
/// the tag of the question. nullopt for messages that nobody answers.
std::optional<wire::Message> refusal_of(const wire::Message& message, const std::string& why);

/// Removes from an answer what clients elsewhere may not see: hashes of files, reasons of failures.
void hide_from_client(wire::Message& message);

}  // namespace holdfast::daemon
