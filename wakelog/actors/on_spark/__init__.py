"""The deployment of actors in a Ray that a Spark session hosts."""
