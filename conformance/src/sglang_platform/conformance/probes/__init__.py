"""Programs that run in a fresh interpreter and tell, as one JSON object, what they saw.

activation  a plugin is imported and asked     processes  what a spawned process has
fresh       starts one and reads what it told
"""
