#pragma once

#include "runtime/training/distributed_optimizer.hpp"
