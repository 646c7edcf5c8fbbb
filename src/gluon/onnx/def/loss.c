#include "gluon/onnx/onnx.h"
const mx_onnx_row mx_onnx_loss[] = {{0}};
