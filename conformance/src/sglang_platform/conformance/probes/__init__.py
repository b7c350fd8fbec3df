"""Programs that run in a fresh interpreter and tell, as one JSON object, what they saw.

activation   a plugin is imported and asked          processes  what a spawned process has
left_behind  what importing and asking it leaves     lifecycle  what a platform's own calls leave
traces       what there is to leave, a record each   fresh      starts one and reads what it told
"""
