"""Episodes side by side, of one program or of many, and the vector environments that play them."""
