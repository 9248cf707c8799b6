"""What tests of this project, and of others who use it, need: a scripted language model and recorded conversations."""
