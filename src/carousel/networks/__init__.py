"""Parts of networks: embedders, encoders, pooling, attention, decoder, CRF, recursive networks."""
