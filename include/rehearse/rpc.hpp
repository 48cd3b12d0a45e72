#pragma once

#include "runtime/rpc/rpc.hpp"
