#pragma once
// The record as one key of etcd, over its JSON gateway:
// https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway/

#include <memory>
#include <string>
#include <vector>

#include "control/replication/record.h"

namespace holdfast::replication {

/// Where the record is: "URL[,URL…]/KEY", the URLs those of etcd's members.
struct EtcdAddress {
  std::vector<std::string> urls;
  std::string key;
};
/// Reads "http://A:2379,http://B:2379/holdfast/main". kUsage with what is wrong.
Result<EtcdAddress> parse_etcd_address(const std::string& text);

/// Returns the record at that address. Members are tried one after the other.
std::unique_ptr<RecordStore> etcd_record(EtcdAddress address);

}  // namespace holdfast::replication
