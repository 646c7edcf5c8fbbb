"""Mixed precision: loss scaling, and conversion of networks to 16 bits."""
from . import lists, loss_scaler
from .amp import (convert_bucketing_module, convert_hybrid_block, convert_model, convert_symbol, init, init_trainer,
                  list_conditional_fp32_ops, list_fp32_ops, list_loss_output_functions, list_lp16_fp32_ops,
                  list_lp16_ops, list_lp16_use_fp32_params, list_widest_type_cast, scale_loss, unscale)
from .loss_scaler import LossScaler

__all__ = ["LossScaler", "convert_bucketing_module", "convert_hybrid_block", "convert_model", "convert_symbol", "init",
           "init_trainer", "list_conditional_fp32_ops", "list_fp32_ops", "list_loss_output_functions",
           "list_lp16_fp32_ops", "list_lp16_ops", "list_lp16_use_fp32_params", "list_widest_type_cast", "lists",
           "loss_scaler", "scale_loss", "unscale"]
