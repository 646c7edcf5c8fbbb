"""Sizes of the models of bench/gpu, the same for both sides."""
LSTM = dict(vocabulary=10000, size=650, layers=2, steps=35, batch=20)
BERT = dict(layers=12, units=768, heads=12, hidden=3072, batch=32, steps=128)
BERT_LM = dict(BERT, vocabulary=30522, dropout=0.1)
GPT2 = dict(vocabulary=50257, units=768, layers=12, heads=12, steps=1024, batch=16)

# unit of a training row, and how many of it a step has
ROWS = {"resnet50": ("img/s", 128), "resnet50_bf16": ("img/s", 128), "mobilenet": ("img/s", 128), "lstm": ("ms", 1),
        "bert": ("tok/s", 32 * 128), "bert_lm": ("tok/s", 32 * 128), "gpt2": ("tok/s", 16 * 1024)}
